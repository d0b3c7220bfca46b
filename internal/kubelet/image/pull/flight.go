package pull

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/image"
)

// flight is one pull and all who wait for it.
type flight struct {
	key    string
	done   chan struct{} // closed when got and err are set
	cancel context.CancelFunc
	got    pulled
	err    error

	// Guarded by Puller.mu.
	waiting int
	hear    []*tale                  // who waits
	news    func(*tale) journal.Fact // the newest that was told of the pull
}

type pulled struct {
	ref   string
	id    string // as the runtime lists it; ref may be another name of it
	used  *image.Credential
	bytes uint64
	took  time.Duration // the pull itself, without waiting for its turn
}

// fly joins the pull of the image with these credentials, or starts it.
func (p *Puller) fly(ctx context.Context, t *tale, spec *runtimeapi.ImageSpec) (pulled, error) {
	creds := p.credentials(ctx, t, spec)
	key := flightKey(spec, creds)

	p.mu.Lock()
	f := p.flights[key]
	if f == nil {
		// The pull outlives whoever asked first: it ends when nobody waits any more.
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &flight{key: key, done: make(chan struct{}), cancel: cancel}
		p.flights[key] = f
		go p.run(own, f, spec, func() (string, *image.Credential, error) { return p.attempts(own, spec, creds, t.Sandbox) })
	}
	f.join(t)
	p.mu.Unlock()

	select {
	case <-f.done:
		return f.got, f.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.leave(t); f.waiting == 0 {
		f.cancel()
		if p.flights[key] == f {
			delete(p.flights, key) // the next one starts afresh instead of joining a pull that is being given up
		}
	}
	return pulled{}, ctx.Err()
}

func (p *Puller) run(ctx context.Context, f *flight, spec *runtimeapi.ImageSpec, pull attempt) {
	defer f.cancel()
	if f.err = p.note(spec.Image); f.err == nil {
		f.got, f.err = p.inTurn(ctx, f, spec.Image, pull)
		if f.err == nil {
			if s, err := p.d.Images.ImageStatus(ctx, spec, false); err == nil {
				f.got.id, f.got.bytes = s.GetImage().GetId(), s.GetImage().GetSize()
			}
		}
		p.noted(ctx, spec.Image, f)
	}
	p.mu.Lock()
	if p.flights[f.key] == f {
		delete(p.flights, f.key)
	}
	p.mu.Unlock()
	close(f.done)
}

// note tells the records that a pull begins: should the kubelet end now, the image is still known to be its own.
func (p *Puller) note(name string) error {
	if p.d.Records == nil {
		return nil
	}
	return p.d.Records.Begin(name)
}

func (p *Puller) noted(ctx context.Context, name string, f *flight) {
	if p.d.Records == nil {
		return
	}
	if err := p.d.Records.End(name, cmp.Or(f.got.id, f.got.ref), f.got.used); err != nil {
		klog.FromContext(ctx).Error(err, "Record of a pull not written; Pods have to prove their right to the image", "image", name)
	}
}

// attempt pulls and returns the image's reference and the credentials that worked, nil when there were none.
type attempt func() (string, *image.Credential, error)

func (p *Puller) inTurn(ctx context.Context, f *flight, name string, pull attempt) (pulled, error) {
	asked := time.Now()
	waited, err := p.turns.enter(ctx, name, p.queued(f))
	if err != nil {
		return pulled{}, err
	}
	defer p.turns.leave(name)
	if waited {
		p.tell(f, func(t *tale) journal.Fact {
			return journal.Waited{For: journal.PullTurn(t.image), Took: journal.Took(time.Since(asked))}
		})
	}
	under, ended := context.WithCancel(ctx)
	defer ended()
	go p.measure(under, f, name)
	start := time.Now()
	ref, used, err := pull()
	return pulled{ref: ref, used: used, took: time.Since(start)}, err
}

// attempts tries the credentials in turn, or none when there are none.
func (p *Puller) attempts(ctx context.Context, spec *runtimeapi.ImageSpec, creds []image.Credential, sandbox *runtimeapi.PodSandboxConfig) (string, *image.Credential, error) {
	if !p.rate.TryAccept() {
		return "", nil, errors.New("pull QPS exceeded")
	}
	if len(creds) == 0 {
		ref, err := p.d.Images.PullImage(ctx, spec, nil, sandbox)
		return ref, nil, err
	}
	var failures []error
	for i, c := range creds {
		ref, err := p.d.Images.PullImage(ctx, spec, c.Auth, sandbox)
		if err == nil {
			return ref, &creds[i], nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(failures) == 1 {
		return "", nil, failures[0]
	}
	return "", nil, errors.Join(failures...)
}

// flightKey keeps apart what must not be shared: another Pod's right to an image is not ours.
func flightKey(spec *runtimeapi.ImageSpec, creds []image.Credential) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", spec.Image, spec.RuntimeHandler)
	for _, c := range creds {
		a := c.Auth
		fmt.Fprintf(h, " %q %q %q %q", a.Username, a.Password, a.IdentityToken, a.RegistryToken)
	}
	return string(h.Sum(nil))
}
