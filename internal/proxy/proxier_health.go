package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
)

// toBeDeletedTaint marks a node that is about to be removed: load balancers should send it nothing
// new (KEP-3836).
const toBeDeletedTaint = "ToBeDeletedByClusterAutoscaler"

// proxyHealthServer answers /healthz and /livez: whether rules are up to date, and whether the node
// is eligible for traffic. It is safe for concurrent use.
type proxyHealthServer struct {
	metrics *proxyMetrics
	timeout time.Duration // how long a change may wait before the proxy is unhealthy

	mu          sync.Mutex
	queuedAt    time.Time // since when a change has waited; zero: none waits
	lastUpdated time.Time
	eligible    bool
}

func newProxyHealthServer(m *proxyMetrics, grace time.Duration) *proxyHealthServer {
	return &proxyHealthServer{metrics: m, timeout: min(grace, time.Minute), eligible: true}
}

// queuedUpdate notes that a change waits to be synced.
func (h *proxyHealthServer) queuedUpdate() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queuedAt.IsZero() {
		h.queuedAt = time.Now()
	}
}

// updated notes that every change queued before began is in the kernel.
func (h *proxyHealthServer) updated(began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastUpdated = time.Now()
	if h.queuedAt.Before(began) {
		h.queuedAt = time.Time{}
	}
}

// syncNode takes over whether the node may get traffic: not while it is deleted or about to be.
// Without a Node it may.
func (h *proxyHealthServer) syncNode(n *v1.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.eligible = true
	if n == nil {
		return
	}
	h.eligible = n.DeletionTimestamp == nil
	for _, t := range n.Spec.Taints {
		h.eligible = h.eligible && t.Key != toBeDeletedTaint
	}
}

// healthStatus is the response body, as kube-proxy's.
type healthStatus struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
}

// status is the response body, whether the rules are in time (no change has waited longer than the
// timeout), and whether the node may get traffic.
func (h *proxyHealthServer) status() (s healthStatus, healthy, eligible bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	healthy = !h.lastUpdated.IsZero() && (h.queuedAt.IsZero() || now.Sub(h.queuedAt) < h.timeout)
	s = healthStatus{LastUpdated: h.lastUpdated, CurrentTime: now}
	if healthy {
		s.LastUpdated = now
	}
	return s, healthy, h.eligible
}

// healthz answers load balancers: 503 also if the node is not eligible. livez answers probes that
// restart the proxy and ignores eligibility.
func (h *proxyHealthServer) healthz(w http.ResponseWriter, _ *http.Request) {
	s, healthy, eligible := h.status()
	s.NodeEligible = &eligible
	h.writeStatus(w, s, healthy && eligible, h.metrics.healthz)
}

func (h *proxyHealthServer) livez(w http.ResponseWriter, _ *http.Request) {
	s, healthy, _ := h.status()
	h.writeStatus(w, s, healthy, h.metrics.livez)
}

func (h *proxyHealthServer) writeStatus(w http.ResponseWriter, s healthStatus, well bool,
	count *prometheus.CounterVec) {
	code := http.StatusOK
	if !well {
		code = http.StatusServiceUnavailable
	}
	count.WithLabelValues(strconv.Itoa(code)).Inc()
	writeJSON(w, code, s)
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		code = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(raw) // the client has gone
}
