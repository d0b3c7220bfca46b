package metrics

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// operationBuckets are upstream's, in seconds.
var operationBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}

// volumePlugins are upstream's names of what serves a kind of volume; a kind is the field of the
// Pod's volume. A claim counts as such: what its PersistentVolume is stands in the claim's volume,
// not in the Pod.
var volumePlugins = map[string]string{
	"emptyDir": "kubernetes.io/empty-dir", "hostPath": "kubernetes.io/host-path",
	"configMap": "kubernetes.io/configmap", "secret": "kubernetes.io/secret",
	"downwardAPI": "kubernetes.io/downward-api", "projected": "kubernetes.io/projected", "image": "kubernetes.io/image",
	"nfs": "kubernetes.io/nfs", "local": "kubernetes.io/local-volume", "csi": "kubernetes.io/csi",
	"persistentVolumeClaim": "kubernetes.io/persistent-claim", "ephemeral": "kubernetes.io/persistent-claim",
}

// plugin is upstream's name for a kind, or N/A.
func plugin(kind string) string {
	if p := volumePlugins[kind]; p != "" {
		return p
	}
	return "N/A"
}

// storageWork counts set-ups of volumes, and Pods evicted for their local storage, and remembers
// which volumes stand.
type storageWork struct {
	took      *prometheus.HistogramVec
	overall   *prometheus.HistogramVec
	evictions *prometheus.CounterVec
	statsAge  *prometheus.HistogramVec
	fruitless *prometheus.GaugeVec
	available *prometheus.GaugeVec
	capacity  *prometheus.GaugeVec

	mu    *sync.Mutex
	ready map[string]map[string]string // plugin by uid of the Pod and name of the volume
}

func newStorageWork(k factory) storageWork {
	return storageWork{
		evictions: k.counter("kubelet_evictions", "[ALPHA] Cumulative number of pod evictions by eviction signal",
			"eviction_signal"),
		statsAge: k.histogram("kubelet_eviction_stats_age_seconds",
			"[ALPHA] Time between when stats are collected, and when pod is evicted based on those stats by eviction "+
				"signal", prometheus.DefBuckets, "eviction_signal"),
		available: k.gauge("gantry_eviction_signal_available",
			"What is left of a signal's resource, as the last look at the node found: bytes, inodes or process ids",
			"eviction_signal"),
		capacity: k.gauge("gantry_eviction_signal_capacity",
			"All that there is of a signal's resource: bytes, inodes or process ids", "eviction_signal"),
		fruitless: k.gauge("gantry_evictions_fruitless",
			"Evictions in a row after which no more of the signal's resource was available", "eviction_signal"),
		mu: &sync.Mutex{}, ready: map[string]map[string]string{},
		took: k.histogram("storage_operation_duration_seconds", "[BETA] Storage operation duration",
			operationBuckets, "volume_plugin", "operation_name", "status", "migrated"),
		overall: k.histogram("volume_operation_total_seconds",
			"[BETA] Storage operation end to end duration in seconds", operationBuckets, "plugin_name",
			"operation_name"),
	}
}

// evictionSignals are upstream's words for limits of local storage.
var evictionSignals = map[string]string{
	journal.OfVolume: "emptydirfs.limit", journal.OfPod: "ephemeralpodfs.limit",
	journal.OfContainer: "ephemeralcontainerfs.limit",
}

// count counts what a fact says of the Pod's volumes.
func (s storageWork) count(uid string, fact journal.Fact) {
	switch f := fact.(type) {
	case journal.VolumeReady:
		s.mounted(uid, f)
	case journal.StorageExceeded:
		s.evictions.WithLabelValues(evictionSignals[f.Of]).Inc()
	case journal.Evicted:
		s.evictions.WithLabelValues(f.Signal).Inc()
	case journal.Released:
		s.forget(uid)
	}
}

// EvictionSignal shows a signal as it was last read.
func (m *Metrics) EvictionSignal(signal string, available, capacity int64) {
	if m != nil {
		m.storage.available.WithLabelValues(signal).Set(float64(available))
		m.storage.capacity.WithLabelValues(signal).Set(float64(capacity))
	}
}

// EvictionStatsAge notes how old the figures were on which a Pod is evicted.
func (m *Metrics) EvictionStatsAge(signal string, age time.Duration) {
	if m != nil {
		m.storage.statsAge.WithLabelValues(signal).Observe(age.Seconds())
	}
}

// EvictionsFruitless tells how many evictions in a row have brought nothing; 0 once one does.
func (m *Metrics) EvictionsFruitless(signal string, evictions int) {
	if m != nil {
		m.storage.fruitless.WithLabelValues(signal).Set(float64(evictions))
	}
}

// mounted remembers a volume that is ready until its Pod is gone.
func (s storageWork) mounted(uid string, f journal.VolumeReady) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready[uid] == nil {
		s.ready[uid] = map[string]string{}
	}
	s.ready[uid][f.Volume] = plugin(f.Type)
}

// VolumeOperation is what was done to a volume.
type VolumeOperation struct {
	Plugin    string // the field of the volume's source, like "csi"
	Driver    string // of a CSI volume
	Operation string
	Migrated  bool
	Err       error
	Took      time.Duration
	Overall   time.Duration // of a mount that succeeded: since the Pod first wanted the volume
}

// VolumeOperationDone counts what was done to a volume.
func (m *Metrics) VolumeOperationDone(o VolumeOperation) {
	if m == nil {
		return
	}
	name, status := plugin(o.Plugin), "success"
	if o.Driver != "" {
		name += ":" + o.Driver
	}
	if o.Err != nil {
		status = "fail-unknown"
	}
	m.storage.took.WithLabelValues(name, o.Operation, status, strconv.FormatBool(o.Migrated)).Observe(o.Took.Seconds())
	if o.Overall > 0 {
		m.storage.overall.WithLabelValues(name, "overall_volume_mount").Observe(o.Overall.Seconds())
	}
}

func (s storageWork) forget(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ready, uid)
}

// actual is how many volumes stand, by plugin.
func (s storageWork) actual() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]float64{}
	for _, of := range s.ready {
		for _, p := range of {
			out[p]++
		}
	}
	return out
}

// desired is how many volumes the Pods want that have not ended, by plugin; kind names the field of
// a volume's source.
func desired(pods []*v1.Pod, kind func(*v1.Volume) string) map[string]float64 {
	out := map[string]float64{}
	for _, p := range pods {
		if pod.IsTerminal(p) {
			continue
		}
		for i := range p.Spec.Volumes {
			out[plugin(kind(&p.Spec.Volumes[i]))]++
		}
	}
	return out
}

// counts sends volume_manager_total_volumes.
func (s storageWork) counts(pods []*v1.Pod, kind func(*v1.Volume) string,
	gauge func(*prometheus.Desc, float64, ...string)) {
	d := desc("volume_manager_total_volumes", "[ALPHA] Number of volumes in Volume Manager", "plugin_name", "state")
	for state, by := range map[string]map[string]float64{actualState: s.actual(),
		desiredState: desired(pods, kind)} {
		var names []string
		for p := range by {
			names = append(names, p)
		}
		slices.Sort(names)
		for _, p := range names {
			gauge(d, by[p], p, state)
		}
	}
}
