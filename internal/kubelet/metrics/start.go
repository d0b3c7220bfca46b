package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// startTimes measure what Kubernetes promises of a Pod's start: from its creation in the API until the API has been told that all its containers run. The
// promise is not about pulling images and running init containers; the second family counts those too. Static Pods are not measured.
// https://github.com/kubernetes/community/blob/master/sig-scalability/slos/pod_startup_latency.md
type startTimes struct {
	sli, total *prometheus.HistogramVec
	book       *startBook
}

type startBook struct {
	mu   sync.Mutex
	pods map[string]*beginning // by uid; none once it is measured
}

// beginning is a Pod that has not run yet.
type beginning struct {
	created time.Time
	runs    bool
	open    map[string]time.Time // what is under way that the promise is not about
	spans   []span               // what was
}

type span struct{ from, to time.Time }

func newStartTimes(k maker) startTimes {
	return startTimes{
		sli:   k.histogram("kubelet_pod_start_sli_duration_seconds", "[ALPHA] Duration in seconds to start a pod, excluding time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch", startBuckets),
		total: k.histogram("kubelet_pod_start_total_duration_seconds", "[ALPHA] Duration in seconds to start a pod since creation, including time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch", startBuckets),
		book:  &startBook{pods: map[string]*beginning{}},
	}
}

// with calls f with a Pod that has not run yet.
func (s startTimes) with(uid string, f func(*beginning)) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	if b := s.book.pods[uid]; b != nil {
		f(b)
	}
}

func (s startTimes) accepted(uid string, created time.Time) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	if !created.IsZero() && s.book.pods[uid] == nil {
		s.book.pods[uid] = &beginning{created: created, open: map[string]time.Time{}}
	}
}

func (s startTimes) begins(uid, what string, now time.Time) {
	s.with(uid, func(b *beginning) { b.open[what] = now })
}

func (s startTimes) ends(uid, what string, now time.Time) {
	s.with(uid, func(b *beginning) {
		if from, ok := b.open[what]; ok {
			b.spans = append(b.spans, span{from, now})
			delete(b.open, what)
		}
	})
}

func (s startTimes) runs(uid string) { s.with(uid, func(b *beginning) { b.runs = true }) }

// told measures a Pod that runs: the API knows now. A sidecar that has begun and not ended is no part of what is left out.
func (s startTimes) told(uid string, now time.Time) {
	s.book.mu.Lock()
	b := s.book.pods[uid]
	if b == nil || !b.runs {
		s.book.mu.Unlock()
		return
	}
	delete(s.book.pods, uid)
	s.book.mu.Unlock()
	took := now.Sub(b.created)
	s.total.WithLabelValues().Observe(took.Seconds())
	s.sli.WithLabelValues().Observe((took - together(b.spans)).Seconds())
}

func (s startTimes) forget(uid string) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	delete(s.book.pods, uid)
}

// together is how long at least one of the spans lasted.
func together(spans []span) time.Duration {
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
