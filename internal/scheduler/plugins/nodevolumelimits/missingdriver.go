package nodevolumelimits

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
)

// missingReason is upstream's text of a node without a driver that the Pod cannot do without.
const missingReason = " CSI driver is not installed on the node"

// isRequired tells whether Pods with volumes of the driver stay off nodes where it is not
// registered: its CSIDriver says so in preventPodSchedulingIfMissing.
func isRequired(listers volumelisters.Listers, driver string) bool {
	obj := listers.Driver(driver)
	return obj != nil && obj.Spec.PreventPodSchedulingIfMissing != nil && *obj.Spec.PreventPodSchedulingIfMissing
}

// requiresAny tells whether any of the drivers is such a one.
func requiresAny(listers volumelisters.Listers, drivers map[string]int) bool {
	for driver := range drivers {
		if isRequired(listers, driver) {
			return true
		}
	}
	return false
}

// missingDriver is the first driver, by name, that the Pod cannot do without and the node does not
// have; empty: none.
func (pl *Plugin) missingDriver(p *v1.Pod, n framework.NodeInfo) string {
	node := pl.listers.CSINode(n.Node().Name)
	drivers := map[string]bool{}
	for h := range volumelisters.VolumesToAttach(pl.listers, p, node) {
		drivers[h.Driver] = true
	}
	for _, driver := range slices.Sorted(maps.Keys(drivers)) {
		if isRequired(pl.listers, driver) && !hasDriver(node, driver) {
			return driver
		}
	}
	return ""
}

func hasDriver(n *storagev1.CSINode, driver string) bool {
	return n != nil && slices.ContainsFunc(n.Spec.Drivers,
		func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
}

// gotRequiredDriver tells whether a node got a driver that has to be there.
func (pl *Plugin) gotRequiredDriver(before, after any) bool {
	was, _ := before.(*storagev1.CSINode)
	is, ok := after.(*storagev1.CSINode)
	return ok && pl.listers != nil && slices.ContainsFunc(is.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
		return !hasDriver(was, d.Name) && isRequired(pl.listers, d.Name)
	})
}
