package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gantry-project/gantry/internal/journal"
)

// RuntimeCall counts a CRI call; method is its name as in the protocol: RunPodSandbox.
func (m *Metrics) RuntimeCall(method string, took time.Duration, err error) {
	if m == nil {
		return
	}
	op := operation(method)
	m.runtime.total.WithLabelValues(op).Inc()
	m.runtime.took.WithLabelValues(op).Observe(took.Seconds())
	if err != nil {
		m.runtime.failed.WithLabelValues(op).Inc()
	}
	if method == "RunPodSandbox" {
		m.runtime.sandbox.WithLabelValues("").Observe(took.Seconds())
		if err != nil {
			m.runtime.sandboxFailed.WithLabelValues("").Inc()
		}
	}
}

// operation is upstream's name of a call: run_podsandbox, container_status.
func operation(method string) string {
	var b strings.Builder
	for i, r := range method {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.ReplaceAll(b.String(), "pod_sandbox", "podsandbox")
}

// PodWorkerDone counts one round of a Pod's worker; operation is create, update, sync, terminating
// or terminated.
func (m *Metrics) PodWorkerDone(operation string, took time.Duration) {
	if m != nil {
		m.podWork.worker.WithLabelValues(operation).Observe(took.Seconds())
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
	if m == nil {
		return
	}
	m.pleg.took.WithLabelValues().Observe(took.Seconds())
	m.pleg.lastSeen.WithLabelValues().Set(float64(now.Unix()))
	if since, ok := m.pods.relisted(now); ok {
		m.pleg.interval.WithLabelValues().Observe(since.Seconds())
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
	if since := m.pods.sinceRelist(now); since > relistThreshold {
		return fmt.Errorf("pleg was last seen active %s ago; threshold is %s", since.Round(time.Second),
			relistThreshold)
	}
	return nil
}

// EventStreamConnected counts tries to follow the runtime's events.
func (m *Metrics) EventStreamConnected(err error) {
	switch {
	case m == nil:
	case err != nil:
		m.pleg.connError.WithLabelValues().Inc()
	default:
		m.pleg.connected.WithLabelValues().Inc()
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
	if ref, ok := m.pods.name(uid); ok {
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

func (m *Metrics) observe(ref journal.Ref, fact journal.Fact, now time.Time) {
	p := &m.podWork
	switch f := fact.(type) {
	case journal.Accepted:
		m.pods.accepted(ref, now)
		m.sli.accepted(ref.UID, f.Created)
	case journal.Planned:
		if since, ok := m.pods.planned(ref, now); ok {
			p.workerStart.WithLabelValues().Observe(since.Seconds())
		}
	case journal.PhaseChanged:
		if f.Phase != "Running" {
			break
		}
		if since, ok := m.pods.running(ref, now); ok {
			p.start.WithLabelValues().Observe(since.Seconds())
			m.sli.setRunning(ref.UID)
		}
	case journal.Called:
		m.called(f)
	case journal.ContainerStarted:
		if f.Init {
			m.sli.beginSpan(ref.UID, "run "+f.Container, now)
			m.pods.containerStarted(ref.UID, f.Container)
		}
		p.containers.WithLabelValues(containerType(f)).Inc()
		if f.Restart > 0 {
			p.restarts.WithLabelValues().Inc()
		}
	case journal.ContainerExited:
		m.sli.endSpan(ref.UID, "run "+f.Container, now)
		p.terminated.WithLabelValues(m.pods.containerType(ref.UID, f.Container), strconv.Itoa(int(f.ExitCode)),
			f.Reason).Inc()
	case journal.Pulling:
		m.sli.beginSpan(ref.UID, "pull "+f.Image, now)
	case journal.Pulled:
		if !f.Present {
			m.sli.endSpan(ref.UID, "pull "+f.Image, now)
			p.pull.WithLabelValues(sizeBucket(f.Bytes)).Observe(time.Duration(f.Took).Seconds())
		}
	case journal.VolumeReady:
		m.storage.mounted(ref.UID, f)
	case journal.VolumeWaiting:
		m.storage.failed(f)
	case journal.StatusWritten:
		p.status.WithLabelValues().Observe(time.Duration(f.Took).Seconds())
		m.sli.statusReported(ref.UID, now)
	case journal.StorageExceeded:
		m.node.evictions.WithLabelValues(evictionSignals[f.Of]).Inc()
	case journal.Refused:
		p.refused.WithLabelValues(f.Reason).Inc()
	case journal.Released:
		p.released.WithLabelValues().Inc()
		m.ForgetProbes(ref.UID)
		m.pods.forget(ref)
		m.sli.forget(ref.UID)
		m.storage.forget(ref.UID)
	}
}

func containerType(f journal.ContainerStarted) string {
	if f.Init {
		return "init_container"
	}
	return "container"
}

func (m *Metrics) called(f journal.Called) {
	p := &m.podWork
	switch f.Method {
	case "RunPodSandbox":
		p.started.WithLabelValues().Inc()
		p.containers.WithLabelValues("pod_sandbox").Inc()
		if f.Error != "" {
			p.startFailed.WithLabelValues().Inc()
			p.containerFailed.WithLabelValues("RunPodSandbox", "pod_sandbox").Inc()
		}
	case "CreateContainer", "StartContainer":
		if f.Error != "" {
			p.containerFailed.WithLabelValues(map[string]string{"CreateContainer": "CreateContainerError",
				"StartContainer": "RunContainerError"}[f.Method], "container").Inc()
		}
	}
}

// sizeBucket is upstream's word for an image's size.
func sizeBucket(bytes uint64) string {
	if bytes == 0 {
		return "N/A"
	}
	const mb, gb = 1 << 20, 1 << 30
	for i, edge := range []uint64{10 * mb, 100 * mb, 500 * mb, 1 * gb, 5 * gb, 10 * gb, 20 * gb, 30 * gb, 40 * gb,
		60 * gb, 100 * gb} {
		if bytes < edge {
			return []string{"0-10MB", "10MB-100MB", "100MB-500MB", "500MB-1GB", "1GB-5GB", "5GB-10GB", "10GB-20GB",
				"20GB-30GB", "30GB-40GB", "40GB-60GB", "60GB-100GB"}[i]
		}
	}
	return "GT100GB"
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

// podTracker remembers of the Pods on the node when they came.
type podTracker struct {
	mu         sync.Mutex
	pods       map[string]*trackedPod // by uid
	lastRelist time.Time
	created    time.Time
}

type trackedPod struct {
	ref              journal.Ref
	acceptedAt       time.Time
	planned, running bool
	inits            []string // init containers that were started
}

func newPodTracker() *podTracker {
	return &podTracker{pods: map[string]*trackedPod{}, created: time.Now()}
}

func (s *podTracker) sinceRelist(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastRelist.IsZero() {
		return now.Sub(s.created)
	}
	return now.Sub(s.lastRelist)
}

func (s *podTracker) accepted(ref journal.Ref, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods[ref.UID] == nil {
		s.pods[ref.UID] = &trackedPod{ref: ref, acceptedAt: now}
	}
}

// containerStarted remembers that a container of a Pod is an init container.
func (s *podTracker) containerStarted(uid, container string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.pods[uid]; c != nil && !slices.Contains(c.inits, container) {
		c.inits = append(c.inits, container)
	}
}

// containerType is upstream's word for what a container is. One that an earlier kubelet started
// counts as an app's.
func (s *podTracker) containerType(uid, container string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.pods[uid]; c != nil && slices.Contains(c.inits, container) {
		return "init_container"
	}
	return "container"
}

func (s *podTracker) planned(ref journal.Ref, now time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.pods[ref.UID]
	if c == nil || c.planned {
		return 0, false
	}
	c.planned = true
	return now.Sub(c.acceptedAt), true
}

// running is how long a Pod took to run for the first time. A Pod that ran before this kubelet did
// changes its phase to nothing else.
func (s *podTracker) running(ref journal.Ref, now time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.pods[ref.UID]
	if c == nil || c.running {
		return 0, false
	}
	c.running = true
	return now.Sub(c.acceptedAt), true
}

func (s *podTracker) name(uid string) (journal.Ref, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.pods[uid]; c != nil {
		return c.ref, true
	}
	return journal.Ref{}, false
}

func (s *podTracker) forget(ref journal.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, ref.UID)
}

func (s *podTracker) relisted(now time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := now.Sub(s.lastRelist)
	first := s.lastRelist.IsZero()
	s.lastRelist = now
	return since, !first
}
