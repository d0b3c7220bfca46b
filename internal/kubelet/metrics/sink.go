package metrics

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gantry-project/gantry/internal/journal"
)

// RuntimeCall counts a CRI call; method is its name as in the protocol: RunPodSandbox.
func (m *Metrics) RuntimeCall(method string, took time.Duration, err error) {
	if m == nil {
		return
	}
	m.runtime.called(method, took, err)
}

// PodWorkerDone counts one round of a Pod's worker; operation is create, update, sync, terminating
// or terminated.
func (m *Metrics) PodWorkerDone(operation string, took time.Duration) {
	if m != nil {
		m.pods.workerDone(operation, took)
	}
}

// Cgroup counts a change of the cgroup tree; operation is create, update or destroy.
func (m *Metrics) Cgroup(operation string, took time.Duration) {
	if m != nil {
		m.cgroups.WithLabelValues(operation).Observe(took.Seconds())
	}
}

// PLEGRelisted counts a listing of all the runtime's Pods.
func (m *Metrics) PLEGRelisted(now time.Time, took time.Duration) {
	if m != nil {
		m.pleg.relisted(now, took)
	}
}

// relistThreshold is how long the runtime may go without answering a listing, which is asked at
// least once a minute.
const relistThreshold = 3 * time.Minute

// PLEGHealthy is an error when no listing of the runtime has been answered for three minutes,
// counted from New.
func (m *Metrics) PLEGHealthy(now time.Time) error {
	if m == nil {
		return nil
	}
	if since := m.pleg.sinceRelist(now); since > relistThreshold {
		return fmt.Errorf("pleg was last seen active %s ago; threshold is %s", since.Round(time.Second),
			relistThreshold)
	}
	return nil
}

// EventStreamConnected counts tries to follow the runtime's events.
func (m *Metrics) EventStreamConnected(err error) {
	if m != nil {
		m.pleg.connected(err)
	}
}

// Probe is whose answer is counted.
type Probe struct{ Namespace, Pod, UID, Container, Kind string }

// kinds and results in upstream's words.
var (
	probeKinds   = map[string]string{"liveness": "Liveness", "readiness": "Readiness", "startup": "Startup"}
	probeResults = map[string]string{"success": "successful", "failure": "failed", "unknown": "unknown"}
)

// ProbeDone counts an answer: success, failure or unknown.
func (m *Metrics) ProbeDone(p Probe, result string, took time.Duration) {
	if m == nil {
		return
	}
	m.probing.total.WithLabelValues(p.Container, p.Namespace, p.Pod, p.UID, probeKinds[p.Kind],
		probeResults[result]).Inc()
	m.probing.took.WithLabelValues(p.Container, p.Namespace, p.Pod, probeKinds[p.Kind]).Observe(took.Seconds())
}

// ProbeLate notes how long after its time a probe of that kind was asked.
func (m *Metrics) ProbeLate(kind string, by time.Duration) {
	if m == nil {
		return
	}
	m.probing.late.WithLabelValues(probeKinds[kind]).Observe(max(by, 0).Seconds())
}

// ForgetProbes forgets a Pod's probes.
func (m *Metrics) ForgetProbes(uid string) {
	if m == nil {
		return
	}
	m.probing.total.DeletePartialMatch(prometheus.Labels{"pod_uid": uid})
	if ref, ok := m.pods.ref(uid); ok {
		m.probing.took.DeletePartialMatch(prometheus.Labels{"namespace": ref.Namespace, "pod": ref.Name})
	}
}

// Sink counts the facts that pass to next.
func (m *Metrics) Sink(next journal.Sink) journal.Sink {
	if m == nil {
		return next
	}
	return sink{m, next}
}

type sink struct {
	metrics *Metrics
	next    journal.Sink
}

// Put counts and passes on.
func (s sink) Put(ref journal.Ref, fact journal.Fact) {
	s.metrics.observe(ref, fact, time.Now())
	s.next.Put(ref, fact)
}

// observe has the parts count a fact.
func (m *Metrics) observe(ref journal.Ref, fact journal.Fact, now time.Time) {
	if _, released := fact.(journal.Released); released {
		m.ForgetProbes(ref.UID) // while the Pod's name is known
	}
	m.pods.count(ref, fact, now)
	m.storage.count(ref.UID, fact)
}

// Request begins a request at the server; path is its first element. The result ends it.
func (m *Metrics) Request(method, path string, long bool) (end func()) {
	if m == nil {
		return func() {}
	}
	l := []string{strconv.FormatBool(long), method, path, "readwrite"}
	m.http.total.WithLabelValues(l...).Inc()
	running, startedAt := m.http.inflight.WithLabelValues(l...), time.Now()
	running.Inc()
	return func() {
		running.Dec()
		m.http.took.WithLabelValues(l...).Observe(time.Since(startedAt).Seconds())
	}
}
