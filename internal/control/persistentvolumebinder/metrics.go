package persistentvolumebinder

import (
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-helpers/storage/volume"
)

func desc(name, help string, names ...string) *metrics.Desc {
	return metrics.NewDesc(name, help, names, nil, metrics.ALPHA, "")
}

var (
	totalVolumes = desc("pv_collector_total_pv_count", "Gauge measuring total number of persistent volumes",
		"plugin_name", "volume_mode")
	boundVolumes = desc("pv_collector_bound_pv_count", "Gauge measuring number of persistent volume currently bound",
		"storage_class")
	unboundVolumes = desc("pv_collector_unbound_pv_count",
		"Gauge measuring number of persistent volume currently unbound", "storage_class")
	boundClaims = desc("pv_collector_bound_pvc_count",
		"Gauge measuring number of persistent volume claim currently bound", "namespace", "storage_class",
		"volume_attributes_class")
	unboundClaims = desc("pv_collector_unbound_pvc_count",
		"Gauge measuring number of persistent volume claim currently unbound", "namespace", "storage_class",
		"volume_attributes_class")
	defaulted = metrics.NewCounter(&metrics.CounterOpts{Name: "retroactive_storageclass_total",
		StabilityLevel: metrics.ALPHA,
		Help:           "Total number of retroactive StorageClass assignments to persistent volume claim"})
	notDefaulted = metrics.NewCounter(&metrics.CounterOpts{Name: "retroactive_storageclass_errors_total",
		StabilityLevel: metrics.ALPHA,
		Help:           "Total number of failed retroactive StorageClass assignments to persistent volume claim"})
	counted = &collector{}
)

func init() {
	legacyregistry.CustomMustRegister(counted)
	legacyregistry.MustRegister(defaulted, notDefaulted)
}

// listers are what the controller that was made last reads.
type listers struct {
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
}

// collector counts volumes and claims when somebody asks.
type collector struct {
	metrics.BaseStableCollector
	from atomic.Pointer[listers] // nil before a controller is made
}

// DescribeWithStability sends what there may be.
func (c *collector) DescribeWithStability(to chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{totalVolumes, boundVolumes, unboundVolumes, boundClaims, unboundClaims} {
		to <- d
	}
}

// CollectWithStability counts.
func (c *collector) CollectWithStability(to chan<- metrics.Metric) {
	from := c.from.Load()
	if from == nil {
		return
	}
	volumes, err := from.volumes.List(labels.Everything())
	if err != nil {
		return
	}
	claims, err := from.claims.List(labels.Everything())
	if err != nil {
		return
	}
	for k, n := range count(volumes, claims) {
		to <- metrics.NewLazyConstMetric(k.family, metrics.GaugeValue, float64(n), k.values[:k.labels]...)
	}
}

// series is a family's with its labels' values.
type series struct {
	family *metrics.Desc
	labels int
	values [3]string
}

// count counts volumes and claims as upstream's families do.
func count(volumes []*v1.PersistentVolume, claims []*v1.PersistentVolumeClaim) map[series]int {
	out := map[series]int{}
	for _, v := range volumes {
		mode := v1.PersistentVolumeFilesystem
		if v.Spec.VolumeMode != nil {
			mode = *v.Spec.VolumeMode
		}
		out[series{totalVolumes, 2, [3]string{pluginOf(v), string(mode)}}]++
		family := unboundVolumes
		if v.Status.Phase == v1.VolumeBound {
			family = boundVolumes
		}
		out[series{family, 1, [3]string{v.Spec.StorageClassName}}]++
	}
	for _, c := range claims {
		family, attributes := unboundClaims, ""
		if c.Status.Phase == v1.ClaimBound {
			family = boundClaims
		}
		if c.Spec.VolumeAttributesClassName != nil {
			attributes = *c.Spec.VolumeAttributesClassName
		}
		out[series{family, 3, [3]string{c.Namespace, volume.GetPersistentVolumeClaimClass(c), attributes}}]++
	}
	return out
}

// pluginOf is upstream's name of what serves a volume.
func pluginOf(v *v1.PersistentVolume) string {
	s := v.Spec.PersistentVolumeSource
	switch {
	case s.CSI != nil:
		return "kubernetes.io/csi:" + s.CSI.Driver
	case s.HostPath != nil:
		return "kubernetes.io/host-path"
	case s.Local != nil:
		return "kubernetes.io/local-volume"
	case s.NFS != nil:
		return "kubernetes.io/nfs"
	}
	return "N/A"
}
