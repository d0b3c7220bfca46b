package proxy

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// checks answers on the health-check node ports of Services with externalTrafficPolicy Local: load balancers ask there which nodes have endpoints.
type checks struct {
	listen func(uint16) (net.Listener, error)
	health *health
	open   map[uint16]*check
}

type check struct {
	server *http.Server
	mu     sync.Mutex
	name   string
	local  int
}

// count is one Service's health check.
type count struct {
	port  uint16
	local int
}

func newChecks(listen func(uint16) (net.Listener, error), h *health) *checks {
	return &checks{listen, h, map[uint16]*check{}}
}

// set opens, updates and closes ports, so that they are those of want, by Service.
func (c *checks) set(ctx context.Context, want map[string]count) {
	wanted := map[uint16]bool{}
	for name, n := range want {
		wanted[n.port] = true
		one, there := c.open[n.port]
		if !there {
			l, err := c.listen(n.port)
			if err != nil {
				klog.FromContext(ctx).Error(err, "Health-check node port cannot be opened; it is tried again with the next change", "service", name, "port", n.port)
				continue
			}
			one = &check{}
			one.server = &http.Server{Handler: c.handler(one), ReadHeaderTimeout: 10 * time.Second}
			c.open[n.port] = one
			go func() { _ = one.server.Serve(l) }() // ends with close
		}
		one.mu.Lock()
		one.name, one.local = name, n.local
		one.mu.Unlock()
	}
	for port, one := range c.open {
		if !wanted[port] {
			_ = one.server.Close()
			delete(c.open, port)
		}
	}
}

func (c *checks) close() { c.set(context.Background(), nil) }

func (c *checks) handler(one *check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		one.mu.Lock()
		name, local := one.name, one.local
		one.mu.Unlock()
		_, healthy, _ := c.health.now()
		code := http.StatusServiceUnavailable
		if local > 0 && healthy {
			code = http.StatusOK
		}
		namespace, service, _ := strings.Cut(name, "/")
		w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(local))
		reply(w, code, map[string]any{
			"service": map[string]string{"namespace": namespace, "name": service}, "localEndpoints": local, "serviceProxyHealthy": healthy,
		})
	})
}

// count notes how many ready endpoints a Service with a health-check node port has on this node. Ending ones still get what comes here, but load
// balancers should send nothing new.
func (p *Proxy) count(key string, s *v1.Service) {
	delete(p.counts, key)
	if s == nil || p.ports[key] == nil || s.Spec.HealthCheckNodePort <= 0 || s.Spec.HealthCheckNodePort > 65535 {
		return
	}
	pods := map[string]bool{}
	for _, ports := range p.ports[key] {
		for _, port := range ports {
			if !port.LocalReady {
				continue
			}
			for _, e := range port.Local {
				pods[who(e)] = true
			}
		}
	}
	p.counts[key] = count{uint16(s.Spec.HealthCheckNodePort), len(pods)}
}

// who is the endpoint whatever its ports.
func who(e rules.Endpoint) string {
	if e.UID != "" {
		return e.UID
	}
	return e.Addr().String()
}
