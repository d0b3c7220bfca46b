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
	"github.com/gantry-project/gantry/internal/kubelet/images"
)

// sharedPull is one pull and all who wait for it.
type sharedPull struct {
	key    string
	done   chan struct{} // closed when got and err are set
	cancel context.CancelFunc
	result pullResult
	err    error

	// Guarded by Puller.mu.
	waiters   int
	listeners []*podPull                  // who waits
	lastNews  func(*podPull) journal.Fact // the newest that was told of the pull
}

type pullResult struct {
	ref   string
	id    string // as the runtime lists it; ref may be another name of it
	used  *images.Credential
	bytes uint64
	took  time.Duration // the pull itself, without waiting for its turn
}

// joinPull joins the pull of the image with these credentials, or starts it.
func (p *Puller) joinPull(ctx context.Context, t *podPull, spec *runtimeapi.ImageSpec) (pullResult, error) {
	creds := p.credentials(ctx, t, spec)
	key := pullKey(spec, creds)

	p.mu.Lock()
	f := p.inflight[key]
	if f == nil {
		// The pull outlives whoever asked first: it ends when nobody waits any more.
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &sharedPull{key: key, done: make(chan struct{}), cancel: cancel}
		p.inflight[key] = f
		go p.run(own, f, spec,
			func() (string, *images.Credential, error) { return p.tryCredentials(own, spec, creds, t.Sandbox) })
	}
	f.join(t)
	p.mu.Unlock()

	select {
	case <-f.done:
		return f.result, f.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.leave(t); f.waiters == 0 {
		f.cancel()
		if p.inflight[key] == f {
			delete(p.inflight, key) // the next one starts afresh instead of joining a pull that is being given up
		}
	}
	return pullResult{}, ctx.Err()
}

func (p *Puller) run(ctx context.Context, f *sharedPull, spec *runtimeapi.ImageSpec, pull pullFunc) {
	defer f.cancel()
	if f.err = p.recordIntent(spec.Image); f.err == nil {
		f.result, f.err = p.pullWhenAllowed(ctx, f, spec.Image, pull)
		if f.err == nil {
			if s, err := p.d.Images.ImageStatus(ctx, spec, false); err == nil {
				f.result.id, f.result.bytes = s.GetImage().GetId(), s.GetImage().GetSize()
			}
		}
		p.recordResult(ctx, spec.Image, f)
	}
	p.mu.Lock()
	if p.inflight[f.key] == f {
		delete(p.inflight, f.key)
	}
	p.mu.Unlock()
	close(f.done)
}

// recordIntent tells the records that a pull begins: should the kubelet end now, the image is still
// known to be its own.
func (p *Puller) recordIntent(name string) error {
	if p.d.Records == nil {
		return nil
	}
	return p.d.Records.RecordPullIntent(name)
}

func (p *Puller) recordResult(ctx context.Context, name string, f *sharedPull) {
	if p.d.Records == nil {
		return
	}
	if err := p.d.Records.RecordPullResult(name, cmp.Or(f.result.id, f.result.ref), f.result.used); err != nil {
		klog.FromContext(ctx).Error(err, "Record of a pull not written; Pods have to prove their right to the image",
			"image", name)
	}
}

// pullFunc pulls and returns the image's reference and the credentials that worked, nil when there
// were none.
type pullFunc func() (string, *images.Credential, error)

func (p *Puller) pullWhenAllowed(ctx context.Context, f *sharedPull, name string, pull pullFunc) (pullResult, error) {
	lookupStart := time.Now()
	waited, err := p.queue.enter(ctx, name, p.reportPosition(f))
	if err != nil {
		return pullResult{}, err
	}
	defer p.queue.leave(name)
	if waited {
		p.broadcast(f, func(t *podPull) journal.Fact {
			return journal.Waited{For: journal.QueuedPullTarget(t.image), Took: journal.Took(time.Since(lookupStart))}
		})
	}
	under, ended := context.WithCancel(ctx)
	defer ended()
	go p.reportProgress(under, f, name)
	start := time.Now()
	ref, used, err := pull()
	return pullResult{ref: ref, used: used, took: time.Since(start)}, err
}

// tryCredentials tries the credentials in turn, or none when there are none.
func (p *Puller) tryCredentials(ctx context.Context, spec *runtimeapi.ImageSpec, creds []images.Credential,
	sandbox *runtimeapi.PodSandboxConfig) (string, *images.Credential, error) {
	if !p.limiter.TryAccept() {
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

// pullKey keeps apart what must not be shared: another Pod's right to an image is not ours.
func pullKey(spec *runtimeapi.ImageSpec, creds []images.Credential) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", spec.Image, spec.RuntimeHandler)
	for _, c := range creds {
		a := c.Auth
		fmt.Fprintf(h, " %q %q %q %q", a.Username, a.Password, a.IdentityToken, a.RegistryToken)
	}
	return string(h.Sum(nil))
}
