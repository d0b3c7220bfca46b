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

// leaving is the taint of a node that is about to be taken away: load balancers should send it nothing new (KEP-3836).
const leaving = "ToBeDeletedByClusterAutoscaler"

// health knows whether the rules follow what they should, and whether the node wants traffic.
type health struct {
	meter *meter
	grace time.Duration // how long a change may wait

	mu       sync.Mutex
	pending  time.Time // since when a change waits; zero: none
	updated  time.Time
	eligible bool
}

func newHealth(m *meter, grace time.Duration) *health {
	return &health{meter: m, grace: min(grace, time.Minute), eligible: true}
}

// asked notes that a change waits.
func (h *health) asked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending.IsZero() {
		h.pending = time.Now()
	}
}

// done notes that all that was asked for before is in the kernel.
func (h *health) done(began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.updated = time.Now()
	if h.pending.Before(began) {
		h.pending = time.Time{}
	}
}

func (h *health) setNode(n *v1.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.eligible = true
	if n == nil {
		return
	}
	h.eligible = n.DeletionTimestamp == nil
	for _, t := range n.Spec.Taints {
		h.eligible = h.eligible && t.Key != leaving
	}
}

// state is what upstream's proxy answers.
type state struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
}

func (h *health) now() (s state, healthy, eligible bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	healthy = !h.updated.IsZero() && (h.pending.IsZero() || now.Sub(h.pending) < h.grace)
	s = state{LastUpdated: h.updated, CurrentTime: now}
	if healthy {
		s.LastUpdated = now
	}
	return s, healthy, h.eligible
}

// healthz answers for load balancers: 503 also when the node is leaving. livez answers for who would restart the proxy.
func (h *health) healthz(w http.ResponseWriter, _ *http.Request) {
	s, healthy, eligible := h.now()
	s.NodeEligible = &eligible
	h.answer(w, s, healthy && eligible, h.meter.healthz)
}

func (h *health) livez(w http.ResponseWriter, _ *http.Request) {
	s, healthy, _ := h.now()
	h.answer(w, s, healthy, h.meter.livez)
}

func (h *health) answer(w http.ResponseWriter, s state, well bool, count *prometheus.CounterVec) {
	code := http.StatusOK
	if !well {
		code = http.StatusServiceUnavailable
	}
	count.WithLabelValues(strconv.Itoa(code)).Inc()
	reply(w, code, s)
}

func reply(w http.ResponseWriter, code int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		code = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(raw) // who asked has gone
}
