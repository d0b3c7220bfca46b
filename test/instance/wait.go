package instance

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Admin is an administrator's client configuration without throttle; it waits for the kubeconfig to
// be written.
func (i *Instance) Admin(ctx context.Context) (*rest.Config, error) {
	var cfg *rest.Config
	err := i.Await(ctx, 5*time.Millisecond, func(context.Context) error {
		var err error
		cfg, err = clientcmd.BuildConfigFromFlags("", i.Kubeconfig())
		return err
	})
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	return cfg, nil
}

// WaitAPI waits until /readyz says ok.
func (i *Instance) WaitAPI(ctx context.Context) error {
	cfg, err := i.Admin(ctx)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	return i.Await(ctx, 5*time.Millisecond, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // somebody who does not answer is asked again
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz: %s", res.Status)
		}
		return nil
	})
}

// Await calls f until it succeeds. It ends at once when a process of this instance has ended by
// itself, and when ctx ends; the error then has f's and the report.
func (i *Instance) Await(ctx context.Context, every time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	i.mu.Lock()
	for name, c := range i.children {
		go func() {
			select {
			case <-c.Exited():
				cancel(fmt.Errorf("gantry %s has ended", name))
			case <-ctx.Done():
			}
		}()
	}
	i.mu.Unlock()
	err := Poll(ctx, every, func() error { return f(ctx) })
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w\n%s", context.Cause(ctx), err, i.Report())
}

// Ended is an error with the report when a process has ended that nobody ended: whatever is asked
// of this instance then fails for that reason.
func (i *Instance) Ended() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for name, c := range i.children {
		if err := c.Failed(); err != nil {
			return fmt.Errorf("gantry %s: %w", name, err)
		}
	}
	return nil
}

// Report is how the processes fare, and the ends of their output and logs.
func (i *Instance) Report() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(i.children)) {
		out = append(out, i.children[name].Report())
	}
	return strings.Join(out, "\n")
}

// Poll calls f until it succeeds; the last error is returned when ctx ends first.
func Poll(ctx context.Context, every time.Duration, f func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}
