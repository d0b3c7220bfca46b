package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// startTimes measure what Kubernetes promises of a Pod's start: from its creation in the API until
// the API has been told that all its containers run. The SLI leaves out pulling images and
// running init containers; the second family counts those too. Static Pods are not measured.
// https://github.com/kubernetes/community/blob/master/sig-scalability/slos/pod_startup_latency.md
type startTimes struct {
	sli, total *prometheus.HistogramVec
	tracker    *startTracker
}

type startTracker struct {
	mu   sync.Mutex
	pods map[string]*podStart // by uid; none once it is measured
}

// podStart is a Pod that has not run yet.
type podStart struct {
	created time.Time
	running bool
	open    map[string]time.Time // what is under way that the SLI leaves out
	spans   []span               // what was
}

type span struct{ from, to time.Time }

func newStartTimes(k factory) startTimes {
	return startTimes{
		sli: k.histogram("kubelet_pod_start_sli_duration_seconds",
			"[ALPHA] Duration in seconds to start a pod, excluding time to pull images and run init containers, "+
				"measured from pod creation timestamp to when all its containers are reported as started and "+
				"observed via watch", startBuckets),
		total: k.histogram("kubelet_pod_start_total_duration_seconds",
			"[ALPHA] Duration in seconds to start a pod since creation, including time to pull images and run init "+
				"containers, measured from pod creation timestamp to when all its containers are reported as started "+
				"and observed via watch", startBuckets),
		tracker: &startTracker{pods: map[string]*podStart{}},
	}
}

// with calls f with a Pod that has not run yet.
func (s startTimes) with(uid string, f func(*podStart)) {
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	if b := s.tracker.pods[uid]; b != nil {
		f(b)
	}
}

func (s startTimes) accepted(uid string, created time.Time) {
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	if !created.IsZero() && s.tracker.pods[uid] == nil {
		s.tracker.pods[uid] = &podStart{created: created, open: map[string]time.Time{}}
	}
}

func (s startTimes) beginSpan(uid, what string, now time.Time) {
	s.with(uid, func(b *podStart) { b.open[what] = now })
}

func (s startTimes) endSpan(uid, what string, now time.Time) {
	s.with(uid, func(b *podStart) {
		if from, ok := b.open[what]; ok {
			b.spans = append(b.spans, span{from, now})
			delete(b.open, what)
		}
	})
}

func (s startTimes) setRunning(uid string) { s.with(uid, func(b *podStart) { b.running = true }) }

// statusReported measures a Pod that runs: the API knows now. A sidecar that has begun and not
// ended is no part of what is left out.
func (s startTimes) statusReported(uid string, now time.Time) {
	s.tracker.mu.Lock()
	b := s.tracker.pods[uid]
	if b == nil || !b.running {
		s.tracker.mu.Unlock()
		return
	}
	delete(s.tracker.pods, uid)
	s.tracker.mu.Unlock()
	took := now.Sub(b.created)
	s.total.WithLabelValues().Observe(took.Seconds())
	s.sli.WithLabelValues().Observe((took - unionDuration(b.spans)).Seconds())
}

func (s startTimes) forget(uid string) {
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	delete(s.tracker.pods, uid)
}

// unionDuration is how long at least one of the spans lasted.
func unionDuration(spans []span) time.Duration {
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	var sum time.Duration
	var until time.Time
	for _, s := range spans {
		from := s.from
		if from.Before(until) {
			from = until
		}
		if s.to.After(from) {
			sum += s.to.Sub(from)
		}
		if s.to.After(until) {
			until = s.to
		}
	}
	return sum
}
