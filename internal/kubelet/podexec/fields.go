package podexec

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// field is the value of a field of the Pod that an environment variable may name.
// https://kubernetes.io/docs/concepts/workloads/pods/downward-api/#available-fields
func (c *call) field(path string) (string, error) {
	if name, key, ok := subscript(path); ok {
		switch name {
		case "metadata.labels":
			return c.pod.Labels[key], nil
		case "metadata.annotations":
			return c.pod.Annotations[key], nil
		}
	}
	hostIPs, podIPs := c.h.d.Node.HostIPs(), c.podIPs()
	switch path {
	case "metadata.name":
		return c.pod.Name, nil
	case "metadata.namespace":
		return c.pod.Namespace, nil
	case "metadata.uid":
		return string(c.pod.UID), nil
	case "spec.nodeName":
		return c.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return c.pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return firstOf(hostIPs), nil
	case "status.hostIPs":
		return strings.Join(hostIPs, ","), nil
	case "status.podIP":
		return firstOf(podIPs), nil
	case "status.podIPs":
		return strings.Join(podIPs, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

// subscript splits metadata.labels['key'].
func subscript(path string) (name, key string, ok bool) {
	name, rest, ok := strings.Cut(path, "['")
	if !ok || !strings.HasSuffix(rest, "']") {
		return "", "", false
	}
	return name, strings.TrimSuffix(rest, "']"), true
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

// resourceField is a request or limit of a container, in units of the divisor, rounded up; a limit that is not set is what the node can give.
func (c *call) resourceField(m podplan.Member, r *v1.ResourceFieldSelector) (string, error) {
	of := m
	if r.ContainerName != "" {
		found, ok := podplan.MemberOf(c.pod, r.ContainerName)
		if !ok {
			return "", fmt.Errorf("container %q not found", r.ContainerName)
		}
		of = found
	}
	list, name, ok := strings.Cut(r.Resource, ".")
	if !ok || list != "limits" && list != "requests" {
		return "", fmt.Errorf("unsupported container resource : %v", r.Resource)
	}
	q, set := of.Resources.Requests[v1.ResourceName(name)], true
	if list == "limits" {
		if q, set = of.Resources.Limits[v1.ResourceName(name)]; !set || q.IsZero() {
			q = c.h.d.Node.Allocatable()[v1.ResourceName(name)]
		}
	}
	return units(q, r.Divisor, name == string(v1.ResourceCPU)), nil
}

func units(q, divisor resource.Quantity, cpu bool) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	n, d := q.Value(), divisor.Value()
	if cpu {
		n, d = q.MilliValue(), divisor.MilliValue()
	}
	return strconv.FormatInt((n+d-1)/d, 10)
}
