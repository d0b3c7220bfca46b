package devicemanager

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// ResourcesStatus is allocatedResourcesStatus of a container that has devices of these resources: a
// device that its plugin does not report is shown healthy, as upstream does.
// https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/#device-plugin-and-unhealthy-devices
func ResourcesStatus(has map[string]Allocation, known Inventory) []v1.ResourceStatus {
	var out []v1.ResourceStatus
	for _, name := range slices.Sorted(maps.Keys(has)) {
		s := v1.ResourceStatus{Name: v1.ResourceName(name), Resources: []v1.ResourceHealth{}}
		for _, id := range has[name].DeviceIDs.Devices() {
			h := v1.ResourceHealth{ResourceID: v1.ResourceID(id), Health: v1.ResourceHealthStatusHealthy}
			if d, reported := known[name].Devices[id]; reported && d.Health != pluginapi.Healthy {
				h.Health = v1.ResourceHealthStatusUnhealthy
			}
			s.Resources = append(s.Resources, h)
		}
		out = append(out, s)
	}
	return out
}
