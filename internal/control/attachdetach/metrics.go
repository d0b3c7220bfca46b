package attachdetach

import (
	"maps"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	podutil "github.com/gantry-project/gantry/internal/pod"
)

var (
	forcedDetaches = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "attach_detach_controller", Name: "attachdetach_controller_forced_detaches",
		StabilityLevel: metrics.ALPHA, Help: "Number of times the A/D Controller performed a forced detach",
	}, []string{"reason"})
	inUseVolumes = metrics.NewDesc("storage_count_attachable_volumes_in_use", "Measure number of volumes in use",
		[]string{"node", "volume_plugin"}, nil, metrics.ALPHA, "")
	totalVolumes = metrics.NewDesc("attachdetach_controller_total_volumes", "Number of volumes in A/D Controller",
		[]string{"plugin_name", "state"}, nil, metrics.ALPHA, "")
	counted = &collector{}
)

func init() {
	legacyregistry.CustomMustRegister(counted)
	legacyregistry.MustRegister(forcedDetaches)
}

// collector counts volumes of the controller that was made last, when somebody asks.
type collector struct {
	metrics.BaseStableCollector
	from atomic.Pointer[controller] // nil before a controller is made
}

// DescribeWithStability sends what there may be.
func (c *collector) DescribeWithStability(to chan<- *metrics.Desc) {
	to <- inUseVolumes
	to <- totalVolumes
}

// CollectWithStability counts.
func (c *collector) CollectWithStability(to chan<- metrics.Metric) {
	from := c.from.Load()
	if from == nil {
		return
	}
	for k, n := range from.count() {
		to <- metrics.NewLazyConstMetric(k.family, metrics.GaugeValue, float64(n), k.labels[:]...)
	}
}

// series is a family's with its labels' values.
type series struct {
	family *metrics.Desc
	labels [2]string
}

// States of attachdetach_controller_total_volumes.
const (
	desiredState = "desired_state_of_world" // volumes that shall be attached, once for each node
	actualState  = "actual_state_of_world"  // volumes that are
)

// count counts volumes as upstream's families do: those in use are of all Pods that have a node,
// once for each Pod, also where nothing has to be attached.
func (c *controller) count() map[series]int {
	out := map[series]int{}
	wanted := map[[2]string]bool{} // volume and node
	for _, o := range c.pods.List() {
		pod, ok := o.(*v1.Pod)
		if !ok || pod.Spec.NodeName == "" {
			continue
		}
		for i := range pod.Spec.Volumes {
			if s := pod.Spec.Volumes[i].CSI; s != nil {
				out[series{inUseVolumes, [2]string{pod.Spec.NodeName, pluginOf(s.Driver)}}]++
			}
		}
		managed := c.isManaged(pod)
		volumes := slices.Collect(maps.Values(inlineVolumes(pod)))
		for _, key := range podutil.ClaimKeys(pod) {
			if v := c.boundVolume(key); v != nil {
				volumes = append(volumes, v)
			}
		}
		for _, v := range volumes {
			driver := v.Spec.CSI.Driver
			out[series{inUseVolumes, [2]string{pod.Spec.NodeName, pluginOf(driver)}}]++
			if at := [2]string{v.Name, pod.Spec.NodeName}; managed && !wanted[at] && c.attaches(driver) {
				wanted[at] = true
				out[series{totalVolumes, [2]string{pluginOf(driver), desiredState}}]++
			}
		}
	}
	for _, o := range c.attachments.List() {
		if a, ok := o.(*storagev1.VolumeAttachment); ok && a.Status.Attached {
			out[series{totalVolumes, [2]string{pluginOf(a.Spec.Attacher), actualState}}]++
		}
	}
	return out
}

func pluginOf(driver string) string { return "kubernetes.io/csi:" + driver }

// isManaged tells whether the Pod's volumes are attached for it.
func (c *controller) isManaged(pod *v1.Pod) bool {
	in := In{Pods: []*v1.Pod{pod}, Nodes: c.node}
	return len(in.users()) > 0
}

// node is a node by its name; nil when there is none.
func (c *controller) node(name string) *v1.Node {
	n, err := c.nodes.Get(name)
	if err != nil {
		return nil
	}
	return n
}

// boundVolume is the volume of a CSI driver that a claim is bound to; nil when there is none.
func (c *controller) boundVolume(claim string) *v1.PersistentVolume {
	ns, name, _ := cache.SplitMetaNamespaceKey(claim)
	x, err := c.claims.PersistentVolumeClaims(ns).Get(name)
	if err != nil || x.Spec.VolumeName == "" {
		return nil
	}
	v, _, err := c.findVolume(x.Spec.VolumeName)
	if err != nil || v.Spec.CSI == nil {
		return nil
	}
	return v
}

// attaches tells whether a driver's volumes are attached.
func (c *controller) attaches(driver string) bool {
	d, err := c.drivers.Get(driver)
	return err != nil || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
}
