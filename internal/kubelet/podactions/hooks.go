package podactions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

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

func (c *operation) httpHook(ctx context.Context, m podplan.Member, g *v1.HTTPGetAction) error {
	port, err := portOf(m, g.Port)
	if err != nil {
		return err
	}
	host := g.Host
	if host == "" {
		host = firstOrEmpty(c.podIPs())
	}
	u := url.URL{Scheme: strings.ToLower(string(g.Scheme)), Host: net.JoinHostPort(host, strconv.Itoa(port))}
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	u.Path, u.RawQuery, _ = strings.Cut("/"+strings.TrimPrefix(g.Path, "/"), "?")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	for _, h := range g.HTTPHeaders {
		if strings.EqualFold(h.Name, "host") {
			req.Host = h.Value
			continue
		}
		req.Header.Add(h.Name, h.Value)
	}
	resp, err := c.executor.d.HTTP.Do(req)
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

func portOf(m podplan.Member, p intstr.IntOrString) (int, error) {
	if p.Type == intstr.Int {
		return p.IntValue(), nil
	}
	for _, have := range m.Ports {
		if have.Name == p.StrVal {
			return int(have.ContainerPort), nil
		}
	}
	if n, err := strconv.Atoi(p.StrVal); err == nil {
		return n, nil
	}
	return 0, fmt.Errorf("couldn't find port: %v", p.StrVal)
}
