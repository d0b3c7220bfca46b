package pull

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/image"
)

// flight is one pull and all who wait for it.
type flight struct {
	key     string
	done    chan struct{} // closed when got and err are set
	cancel  context.CancelFunc
	waiting int // guarded by Puller.mu
	got     pulled
	err     error
}

type pulled struct {
	ref   string
	bytes uint64
	took  time.Duration // the pull itself, without waiting for its turn
}

// fly joins the pull of the image with these credentials, or starts it.
func (p *Puller) fly(ctx context.Context, t *tale, spec *runtimeapi.ImageSpec) (pulled, error) {
	creds, bad := image.Credentials(spec.Image, t.Secrets)
	for _, err := range bad {
		klog.FromContext(ctx).Error(err, "Pull secret not used", "pod", klog.KObj(t.Pod), "image", spec.Image)
	}
	key := flightKey(spec, creds)

	p.mu.Lock()
	f := p.flights[key]
	if f == nil {
		// The pull outlives whoever asked first: it ends when nobody waits any more.
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &flight{key: key, done: make(chan struct{}), cancel: cancel}
		p.flights[key] = f
		go p.run(own, f, spec, func() (string, error) { return p.attempts(own, spec, creds, t.Sandbox) })
	}
	f.waiting++
	p.mu.Unlock()

	select {
	case <-f.done:
		return f.got, f.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		if p.flights[key] == f {
			delete(p.flights, key) // the next one starts afresh instead of joining a pull that is being given up
		}
	}
	return pulled{}, ctx.Err()
}

func (p *Puller) run(ctx context.Context, f *flight, spec *runtimeapi.ImageSpec, pull func() (string, error)) {
	defer f.cancel()
	f.got, f.err = p.inTurn(ctx, pull)
	if f.err == nil {
		if s, err := p.d.Images.ImageStatus(ctx, spec, false); err == nil {
			f.got.bytes = s.GetImage().GetSize()
		}
	}
	p.mu.Lock()
	if p.flights[f.key] == f {
		delete(p.flights, f.key)
	}
	p.mu.Unlock()
	close(f.done)
}

func (p *Puller) inTurn(ctx context.Context, pull func() (string, error)) (pulled, error) {
	if p.slots != nil {
		select {
		case p.slots <- struct{}{}:
			defer func() { <-p.slots }()
		case <-ctx.Done():
			return pulled{}, ctx.Err()
		}
	}
	start := time.Now()
	ref, err := pull()
	return pulled{ref: ref, took: time.Since(start)}, err
}

// attempts tries the credentials in turn, or none when there are none.
func (p *Puller) attempts(ctx context.Context, spec *runtimeapi.ImageSpec, creds []image.Credential, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	if len(creds) == 0 {
		return p.d.Images.PullImage(ctx, spec, nil, sandbox)
	}
	var failures []error
	for _, c := range creds {
		ref, err := p.d.Images.PullImage(ctx, spec, c.Auth, sandbox)
		if err == nil {
			return ref, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(failures) == 1 {
		return "", failures[0]
	}
	return "", errors.Join(failures...)
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
