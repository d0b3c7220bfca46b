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

// serviceHealthServer serves the health-check node ports of Services with externalTrafficPolicy
// Local, where load balancers ask which nodes have endpoints. The sync loop owns it; each
// instance's mutex guards what its handler reads.
type serviceHealthServer struct {
	listen    func(uint16) (net.Listener, error)
	health    *proxyHealthServer
	instances map[uint16]*healthCheckInstance
}

// healthCheckInstance serves one health-check node port.
type healthCheckInstance struct {
	server         *http.Server
	mu             sync.Mutex
	name           string
	localEndpoints int
}

// healthCheckTarget is the wanted state of one Service's health-check node port.
type healthCheckTarget struct {
	port           uint16
	localEndpoints int
}

func newServiceHealthServer(listen func(uint16) (net.Listener, error), h *proxyHealthServer) *serviceHealthServer {
	return &serviceHealthServer{listen, h, map[uint16]*healthCheckInstance{}}
}

// syncServices opens, updates and closes ports so that they match want, by Service. A port that
// cannot be opened is logged and tried again at the next sync.
func (c *serviceHealthServer) syncServices(ctx context.Context, want map[string]healthCheckTarget) {
	wanted := map[uint16]bool{}
	for name, n := range want {
		wanted[n.port] = true
		one, there := c.instances[n.port]
		if !there {
			l, err := c.listen(n.port)
			if err != nil {
				klog.FromContext(ctx).Error(err,
					"Health-check node port cannot be opened; it is tried again with the next change", "service", name,
					"port", n.port)
				continue
			}
			one = &healthCheckInstance{}
			one.server = &http.Server{Handler: c.newHandler(one), ReadHeaderTimeout: 10 * time.Second}
			c.instances[n.port] = one
			go func() { _ = one.server.Serve(l) }() // ends when the server is closed
		}
		one.mu.Lock()
		one.name, one.localEndpoints = name, n.localEndpoints
		one.mu.Unlock()
	}
	for port, one := range c.instances {
		if !wanted[port] {
			_ = one.server.Close()
			delete(c.instances, port)
		}
	}
}

func (c *serviceHealthServer) close() { c.syncServices(context.Background(), nil) }

// newHandler answers 200 while the Service has endpoints on this node and the proxy is healthy,
// else 503, with kube-proxy's body and headers.
func (c *serviceHealthServer) newHandler(one *healthCheckInstance) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		one.mu.Lock()
		name, local := one.name, one.localEndpoints
		one.mu.Unlock()
		_, healthy, _ := c.health.status()
		code := http.StatusServiceUnavailable
		if local > 0 && healthy {
			code = http.StatusOK
		}
		namespace, service, _ := strings.Cut(name, "/")
		w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(local))
		writeJSON(w, code, map[string]any{
			"service": map[string]string{"namespace": namespace, "name": service}, "localEndpoints": local,
			"serviceProxyHealthy": healthy,
		})
	})
}

// updateHealthCheck records how many ready endpoints a Service with a health-check node port has on
// this node. Terminating endpoints do not count: they still get the node's traffic, but load
// balancers should send nothing new.
func (p *Proxier) updateHealthCheck(key string, s *v1.Service) {
	delete(p.healthChecks, key)
	if s == nil || p.ports[key] == nil || s.Spec.HealthCheckNodePort <= 0 || s.Spec.HealthCheckNodePort > 65535 {
		return
	}
	pods := map[string]bool{}
	for _, ports := range p.ports[key] {
		for _, port := range ports {
			if !port.LocalEndpointsReady {
				continue
			}
			for _, e := range port.LocalEndpoints {
				pods[endpointKey(e)] = true
			}
		}
	}
	p.healthChecks[key] = healthCheckTarget{uint16(s.Spec.HealthCheckNodePort), len(pods)}
}

// endpointKey identifies an endpoint regardless of its port: by Pod UID, else by address.
func endpointKey(e rules.Endpoint) string {
	if e.UID != "" {
		return e.UID
	}
	return e.Addr().String()
}
