package podactions

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/volume/fieldpath"
)

// podField is the value of a field of the Pod that an environment variable may name.
// https://kubernetes.io/docs/concepts/workloads/pods/downward-api/#available-fields
func (c *operation) podField(path string) (string, error) {
	switch path {
	case "status.hostIP":
		return firstOrEmpty(c.executor.d.Node.HostIPs()), nil
	case "status.hostIPs":
		return strings.Join(c.executor.d.Node.HostIPs(), ","), nil
	case "status.podIP":
		return firstOrEmpty(c.podIPs()), nil
	case "status.podIPs":
		return strings.Join(c.podIPs(), ","), nil
	}
	return fieldpath.PodField(c.pod, path)
}

func (c *operation) podIPs() []string {
	if c.pod.Spec.HostNetwork {
		return c.executor.d.Node.HostIPs()
	}
	if sandbox := c.observed.Sandbox(); sandbox != nil {
		return sandbox.IPs
	}
	return nil
}

func firstOrEmpty(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// resourceField is a request or limit of a container in units of the divisor.
func (c *operation) resourceField(m podplan.Member, r *v1.ResourceFieldSelector) (string, error) {
	return fieldpath.ContainerResource(c.pod, m.Name, r, c.executor.d.Node.Allocatable())
}
