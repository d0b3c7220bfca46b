package podexec

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/volume/field"
)

// field is the value of a field of the Pod that an environment variable may name.
// https://kubernetes.io/docs/concepts/workloads/pods/downward-api/#available-fields
func (c *call) field(path string) (string, error) {
	switch path {
	case "status.hostIP":
		return firstOf(c.h.d.Node.HostIPs()), nil
	case "status.hostIPs":
		return strings.Join(c.h.d.Node.HostIPs(), ","), nil
	case "status.podIP":
		return firstOf(c.podIPs()), nil
	case "status.podIPs":
		return strings.Join(c.podIPs(), ","), nil
	}
	return field.Pod(c.pod, path)
}

func (c *call) podIPs() []string {
	if c.pod.Spec.HostNetwork {
		return c.h.d.Node.HostIPs()
	}
	if box := c.seen.Sandbox(); box != nil {
		return box.IPs
	}
	return nil
}

func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// resourceField is a request or limit of a container in units of the divisor.
func (c *call) resourceField(m podplan.Member, r *v1.ResourceFieldSelector) (string, error) {
	return field.Resource(c.pod, m.Name, r, c.h.d.Node.Allocatable())
}
