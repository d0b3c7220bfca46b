package metrics

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// podMetrics counts what happens to Pods, from the facts of their journals.
type podMetrics struct {
	hookWork
	work podWork
	sli  startTimes
	pods *podTracker
}

func newPodMetrics(k factory) *podMetrics {
	return &podMetrics{hookWork: newHookWork(k), work: newPodWork(k), sli: newStartTimes(k), pods: newPodTracker()}
}

func (m *podMetrics) workerDone(operation string, took time.Duration) {
	m.work.worker.WithLabelValues(operation).Observe(took.Seconds())
}

func (m *podMetrics) admitted(p *v1.Pod) {
	if p.Spec.HostUsers != nil && !*p.Spec.HostUsers {
		m.pods.userNamespaced(string(p.UID))
	}
}

func (m *podMetrics) ref(uid string) (journal.Ref, bool) { return m.pods.name(uid) }

func (m *podMetrics) count(ref journal.Ref, fact journal.Fact, now time.Time) {
	p := &m.work
	switch f := fact.(type) {
	case journal.Accepted:
		m.pods.accepted(ref, now)
		m.sli.accepted(ref.UID, f.Created)
	case journal.Planned:
		m.pods.setNewSandbox(ref.UID, false)
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
		m.calledFor(ref.UID, f)
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
	case journal.StatusWritten:
		p.status.WithLabelValues().Observe(time.Duration(f.Took).Seconds())
		m.sli.statusReported(ref.UID, now)
	case journal.Refused:
		p.refused.WithLabelValues(f.Reason).Inc()
	case journal.Released:
		p.released.WithLabelValues().Inc()
		m.pods.forget(ref)
		m.sli.forget(ref.UID)
	}
}

func containerType(f journal.ContainerStarted) string {
	if f.Init {
		return "init_container"
	}
	return "container"
}

func (m *podMetrics) called(f journal.Called) {
	p := &m.work
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

// calledFor counts starts of Pods with user namespaces, and those in which something failed: while
// the sandbox was made or, in the same sync, after it.
func (m *podMetrics) calledFor(uid string, f journal.Called) {
	if f.Method == "RunPodSandbox" && m.pods.setNewSandbox(uid, true) {
		m.work.userNamespaced["started"].Inc()
	}
	if f.Error != "" && m.pods.setNewSandbox(uid, false) {
		m.work.userNamespaced["failed"].Inc()
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

type podWork struct {
	worker                      *prometheus.HistogramVec
	workerStart, start, status  *prometheus.HistogramVec
	pull                        *prometheus.HistogramVec
	started, startFailed        *prometheus.CounterVec
	containers, containerFailed *prometheus.CounterVec
	terminated                  *prometheus.CounterVec
	released, refused           *prometheus.CounterVec
	restarts                    *prometheus.CounterVec
	userNamespaced              map[string]prometheus.Counter // of Pods: started, failed
}

func newPodWork(k factory) podWork {
	return podWork{
		worker: k.histogram("kubelet_pod_worker_duration_seconds",
			"[ALPHA] Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
			prometheus.DefBuckets, "operation_type"),
		workerStart: k.histogram("kubelet_pod_worker_start_duration_seconds",
			"[ALPHA] Duration in seconds from kubelet seeing a pod to starting a worker.", prometheus.DefBuckets),
		start: k.histogram("kubelet_pod_start_duration_seconds",
			"[ALPHA] Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
			startBuckets),
		status: k.histogram("kubelet_pod_status_sync_duration_seconds",
			"[ALPHA] Duration in seconds to sync a pod status update. Measures time from detection of a change to "+
				"pod status until the API is successfully updated for that pod, even if multiple intevening changes "+
				"to pod status occur.", []float64{0.010, 0.050, 0.100, 0.500, 1, 5, 10, 20, 30, 45, 60}),
		pull: k.histogram("kubelet_image_pull_duration_seconds",
			"[ALPHA] Duration in seconds to pull an image.", pullBuckets, "image_size_in_bytes"),
		started: k.counter("kubelet_started_pods_total", "[ALPHA] Cumulative number of pods started"),
		startFailed: k.counter("kubelet_started_pods_errors_total",
			"[ALPHA] Cumulative number of errors when starting pods"),
		userNamespaced: map[string]prometheus.Counter{
			"started": k.counter("kubelet_started_user_namespaced_pods_total", "[ALPHA] Cumulative number of pods "+
				"with user namespaces started. This metric will only be collected on Linux.").WithLabelValues(),
			"failed": k.counter("kubelet_started_user_namespaced_pods_errors_total", "[ALPHA] Cumulative number of "+
				"errors when starting pods with user namespaces. This metric will only be collected on Linux.").
				WithLabelValues(),
		},
		containers: k.counter("kubelet_started_containers_total",
			"[ALPHA] Cumulative number of containers started", "container_type"),
		containerFailed: k.counter("kubelet_started_containers_errors_total",
			"[ALPHA] Cumulative number of errors when starting containers", "code", "container_type"),
		terminated: k.counter("kubelet_terminated_containers_total",
			"[ALPHA] Cumulative number of container terminations.", "container_type", "exit_code", "reason"),
		released: k.counter("kubelet_released_pods_total",
			"Cumulative number of Pods of which nothing is left on the node"),
		refused: k.counter("kubelet_admission_rejections_total",
			"[ALPHA] Cumulative number pod admission rejections by the Kubelet.", "reason"),
		restarts: k.counter("kubelet_container_restarts_total",
			"Cumulative number of starts of containers that had run before"),
	}
}

// podTracker remembers of the Pods on the node when they came.
type podTracker struct {
	mu   sync.Mutex
	pods map[string]*trackedPod // by uid
	// newSandbox has the Pods with user namespaces, by uid, and whether their sandbox was made in
	// this sync and nothing failed since.
	newSandbox map[string]bool
}

type trackedPod struct {
	ref              journal.Ref
	acceptedAt       time.Time
	planned, running bool
	inits            []string // init containers that were started
}

func newPodTracker() *podTracker {
	return &podTracker{pods: map[string]*trackedPod{}, newSandbox: map[string]bool{}}
}

// userNamespaced remembers a Pod with user namespaces.
func (s *podTracker) userNamespaced(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newSandbox[uid] = false
}

// setNewSandbox sets whether a Pod with user namespaces is in the sync that made its sandbox, and
// tells whether that is a change.
func (s *podTracker) setNewSandbox(uid string, is bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.newSandbox[uid]
	if ok {
		s.newSandbox[uid] = is
	}
	return ok && was != is
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
	delete(s.newSandbox, ref.UID)
}
