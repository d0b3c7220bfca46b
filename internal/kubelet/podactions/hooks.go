package podactions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	probehttp "github.com/gantry-project/gantry/internal/kubelet/probe/http"
)

const hookUserAgent = "kube-lifecycle/1.37"

// runHook runs a lifecycle hook of a container (upstream: the lifecycle HandlerRunner) and returns
// its failure in upstream's words.
func (c *operation) runHook(ctx context.Context, m podplan.Member, id string, h *v1.LifecycleHandler) error {
	subject := fmt.Sprintf("for Container %q in Pod %q failed", m.Name, podplan.FullName(c.pod))
	switch {
	case h.Exec != nil:
		var limit time.Duration
		if deadline, has := ctx.Deadline(); has {
			limit = max(time.Until(deadline), time.Second)
		}
		out, errOut, err := c.executor.d.Runtime.ExecSync(ctx, id, h.Exec.Command, limit)
		if err != nil {
			return fmt.Errorf("Exec lifecycle hook (%v) %s - error: %w, message: %q", h.Exec.Command, subject, err,
				string(out)+string(errOut))
		}
	case h.HTTPGet != nil:
		if err := c.httpHook(ctx, m, h.HTTPGet); err != nil {
			return fmt.Errorf("HTTP lifecycle hook (%s) %s - error: %w", h.HTTPGet.Path, subject, err)
		}
	case h.Sleep != nil:
		if err := sleep(ctx, time.Duration(h.Sleep.Seconds)*time.Second); err != nil {
			c.executor.d.Hooks.Metrics.SleepEndedEarly()
			return fmt.Errorf("Sleep lifecycle hook (%d) %s - error: %w", h.Sleep.Seconds, subject, err)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// httpHook asks with HTTP once more when a server that was to be asked with HTTPS answers so, as
// hooks once were asked with HTTP whatever they said.
func (c *operation) httpHook(ctx context.Context, m podplan.Member, g *v1.HTTPGetAction) error {
	req, err := probehttp.NewRequest(ctx, g, probe.Target{Container: &v1.Container{Ports: m.Ports},
		PodIP: firstOrEmpty(c.podIPs())}, hookUserAgent)
	if err != nil {
		return err
	}
	err = c.get(req)
	if !errors.Is(err, http.ErrSchemeMismatch) {
		return err
	}
	plain := req.Clone(ctx)
	plain.URL.Scheme = "http"
	plain.Header.Del("Authorization")
	if c.get(plain) != nil {
		return err
	}
	c.executor.d.Hooks.Metrics.HookFellBackToHTTP()
	c.executor.d.Events.Pod(c.pod, v1.EventTypeWarning, "LifecycleHTTPFallback",
		fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", req.URL.Host))
	return nil
}

// get sends a request; any answer will do.
func (c *operation) get(req *http.Request) error {
	resp, err := c.executor.d.Hooks.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.CopyN(io.Discard, resp.Body, 10<<10)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}
