package metrics

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/pod"
)

// Sources are asked when somebody scrapes.
type Sources struct {
	NodeName     string
	Version      string // v1.37.2
	Cgroups      int    // version of the hierarchy, 1 or 2; 0: not shown
	Pods         func() []*v1.Pod
	MissedEvents func() int64                   // changes that no event told of; nil: not shown
	Stuck        func() []Stuck                 // steps of Pods that hang; nil: not shown
	Volumes      func(context.Context) []Volume // nil: no kubelet_volume_stats_*
	Logs         func(context.Context) []Log    // nil: no kubelet_container_log_filesystem_used_bytes
	Expiry       func() map[string]time.Time    // of certificates by use, client or server; nil: not shown
	Plugins      func() map[string]bool         // sockets of plugins, and whether they are registered; nil: not shown
	// prepared ResourceClaims, all and by driver; nil: not shown
	Claims func() (all int, byDriver map[string]int)
}

// Stuck is a step of a Pod that hangs.
type Stuck struct {
	Namespace, Pod, UID, Path, Step string
	Since                           time.Time
}

// Volume is a persistent volume of a Pod; bytes and counts.
type Volume struct {
	Namespace, Claim                                          string
	Capacity, Available, Used, Inodes, InodesFree, InodesUsed float64
}

// Log is what a container's logs take, in bytes.
type Log struct {
	Namespace, Pod, UID, Container string
	Bytes                          float64
}

// Attach gives the sources; it is called once, before Handler.
func (m *Metrics) Attach(s Sources) {
	if m != nil {
		m.registry.MustRegister(&collector{s, m.storage})
	}
}

// Add has /metrics show what another part of the node counts. Names must not be taken.
func (m *Metrics) Add(all ...prometheus.Collector) {
	if m != nil {
		m.registry.MustRegister(all...)
	}
}

// Handler serves /metrics: the kubelet's own families, and the process's.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{m.registry, prometheus.GathererFunc(processMetrics)},
		promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// processFamilies begin the names of families that say something of the process, not of an API
// server or a scheduler that may live in it too.
var processFamilies = []string{"go_", "process_", "rest_client_", "workqueue_", "kubernetes_feature_enabled",
	"kubelet_certificate_manager_", "kubelet_server_expiration_"}

// processMetrics gathers those families.
func processMetrics() ([]*dto.MetricFamily, error) {
	all, err := legacyregistry.DefaultGatherer.Gather()
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		return !slices.ContainsFunc(processFamilies, func(p string) bool { return strings.HasPrefix(f.GetName(), p) })
	}), err
}

// ProbesHandler serves /metrics/probes.
func (m *Metrics) ProbesHandler() http.Handler {
	return promhttp.HandlerFor(m.probes, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// collector collects what is true at the moment.
type collector struct {
	sources Sources
	storage storageWork
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe sends nothing: what there is differs from scrape to scrape.
func (n *collector) Describe(chan<- *prometheus.Desc) {}

// Collect asks the sources.
func (n *collector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(n.sources.Version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	gauge(desc("kubernetes_build_info",
		"[ALPHA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree "+
			"state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it "+
			"is running.",
		"build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version", "major", "minor",
		"platform"),
		1, "", runtime.Compiler, "", "", n.sources.Version, runtime.Version(), major, minor,
		runtime.GOOS+"/"+runtime.GOARCH)
	gauge(desc("kubelet_node_name", "[ALPHA] The node's name. The count is always 1.", "node"), 1, n.sources.NodeName)
	if n.sources.Cgroups != 0 {
		gauge(desc("kubelet_cgroup_version", "[ALPHA] cgroup version on the hosts."), float64(n.sources.Cgroups))
	}
	if n.sources.Pods != nil {
		n.pods(gauge)
	}
	if n.sources.MissedEvents != nil {
		to <- prometheus.MustNewConstMetric(desc("kubelet_pleg_missed_events_total",
			"Changes in the runtime that only the audit listing found"), prometheus.CounterValue,
			float64(n.sources.MissedEvents()))
	}
	if n.sources.Stuck != nil {
		d := desc("kubelet_stuck_pod_seconds",
			"For how long a step of a Pod has not come back; there only for Pods that are stuck", "namespace", "pod",
			"uid", "path", "step")
		for _, s := range n.sources.Stuck() {
			gauge(d, time.Since(s.Since).Seconds(), s.Namespace, s.Pod, s.UID, s.Path, s.Step)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if n.sources.Volumes != nil {
		n.volumes(ctx, gauge)
	}
	if n.sources.Logs != nil {
		d := desc("kubelet_container_log_filesystem_used_bytes",
			"[ALPHA] Bytes used by the container's logs on the filesystem.", "container", "namespace", "pod", "uid")
		for _, l := range n.sources.Logs(ctx) {
			gauge(d, l.Bytes, l.Container, l.Namespace, l.Pod, l.UID)
		}
	}
	if n.sources.Expiry != nil {
		n.certificates(gauge)
	}
	if n.sources.Plugins != nil {
		n.pluginSockets(gauge)
	}
	if n.sources.Claims != nil {
		n.claims(gauge)
	}
}

func (n *collector) certificates(gauge func(*prometheus.Desc, float64, ...string)) {
	for use, at := range n.sources.Expiry() {
		gauge(desc("kubelet_certificate_manager_"+use+"_ttl_seconds",
			"[ALPHA] Gauge of the TTL (time-to-live) of the Kubelet's "+use+" certificate. The value is in seconds "+
				"until certificate expiry (negative if already expired)."), time.Until(at).Seconds())
	}
}

// podCounts counts Pods and containers.
type podCounts struct {
	running, mirror, ephemeral float64
	desired, active            map[bool]float64 // by static
	containers                 map[string]float64
}

func count(pods []*v1.Pod) podCounts {
	t := podCounts{desired: map[bool]float64{}, active: map[bool]float64{}, containers: map[string]float64{}}
	for _, p := range pods {
		static := pod.IsStatic(p)
		if pod.IsMirror(p) {
			t.mirror++
		}
		t.desired[static]++
		if !pod.IsTerminal(p) {
			t.active[static]++
		}
		t.ephemeral += float64(len(p.Spec.EphemeralContainers))
		up := false
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
			p.Status.EphemeralContainerStatuses) {
			switch {
			case s.State.Running != nil:
				t.containers["running"]++
				up = true
			case s.State.Terminated != nil:
				t.containers["exited"]++
			case s.ContainerID != "":
				t.containers["created"]++
			}
			if s.LastTerminationState.Terminated != nil {
				t.containers["exited"]++
			}
		}
		if up {
			t.running++
		}
	}
	return t
}

func (n *collector) pods(gauge func(*prometheus.Desc, float64, ...string)) {
	t := count(n.sources.Pods())
	waitingResizes(n.sources.Pods(), gauge)
	n.storage.counts(n.sources.Pods(), volume.Kind, gauge)
	gauge(desc("kubelet_running_pods", "[ALPHA] Number of pods that have a running pod sandbox"), t.running)
	containers := desc("kubelet_running_containers", "[ALPHA] Number of containers currently running",
		"container_state")
	for _, state := range []string{"created", "exited", "running"} {
		if v, ok := t.containers[state]; ok {
			gauge(containers, v, state)
		}
	}
	gauge(desc("kubelet_mirror_pods",
		"[ALPHA] The number of mirror pods the kubelet will try to create (one per admitted static pod)"), t.mirror)
	gauge(desc("kubelet_managed_ephemeral_containers",
		"[ALPHA] Current number of ephemeral containers in pods managed by this kubelet."), t.ephemeral)
	desired := desc("kubelet_desired_pods",
		"[ALPHA] The number of pods the kubelet is being instructed to run. static is true if the pod is not from "+
			"the apiserver.", "static")
	active := desc("kubelet_active_pods",
		"[ALPHA] The number of pods the kubelet considers active and which are being considered when admitting new "+
			"pods. static is true if the pod is not from the apiserver.", "static")
	for _, static := range []bool{false, true} {
		gauge(desired, t.desired[static], strconv.FormatBool(static))
		gauge(active, t.active[static], strconv.FormatBool(static))
	}
}

func (n *collector) volumes(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) {
	done := map[string]bool{}
	rows := []struct {
		name, help string
		of         func(Volume) float64
	}{
		{"capacity_bytes", "Capacity in bytes of the volume", func(v Volume) float64 { return v.Capacity }},
		{"available_bytes", "Number of available bytes in the volume", func(v Volume) float64 { return v.Available }},
		{"used_bytes", "Number of used bytes in the volume", func(v Volume) float64 { return v.Used }},
		{"inodes", "Maximum number of inodes in the volume", func(v Volume) float64 { return v.Inodes }},
		{"inodes_free", "Number of free inodes in the volume", func(v Volume) float64 { return v.InodesFree }},
		{"inodes_used", "Number of used inodes in the volume", func(v Volume) float64 { return v.InodesUsed }},
	}
	for _, v := range n.sources.Volumes(ctx) {
		key := v.Namespace + "/" + v.Claim
		if v.Claim == "" || done[key] { // two Pods may share a claim
			continue
		}
		done[key] = true
		for _, r := range rows {
			gauge(desc("kubelet_volume_stats_"+r.name, "[ALPHA] "+r.help, "namespace", "persistentvolumeclaim"),
				r.of(v), v.Namespace, v.Claim)
		}
	}
}
