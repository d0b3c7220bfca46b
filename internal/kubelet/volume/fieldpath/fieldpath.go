// Package fieldpath reads the parts of a PodField that containers may see through the downward API.
//
// In: a field path or a resource selector. Out: the text for an environment variable or a file,
// errors in upstream's words. Pure.
package fieldpath

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// PodField reads a field of the object itself: name, namespace, uid, labels, annotations, one label
// or annotation by metadata.labels['key'], nodeName and serviceAccountName.
func PodField(pod *v1.Pod, path string) (string, error) {
	if outer, key, ok := subscript(path); ok {
		switch outer {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	switch path {
	case "metadata.annotations":
		return FormatMap(pod.Annotations), nil
	case "metadata.labels":
		return FormatMap(pod.Labels), nil
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

// subscript splits metadata.labels['a/b'] into metadata.labels and a/b.
func subscript(path string) (outer, key string, ok bool) {
	outer, rest, found := strings.Cut(path, "['")
	key, trailing := strings.CutSuffix(rest, "']")
	return outer, key, found && trailing
}

// FormatMap writes labels or annotations as key="escaped value", one per line, sorted.
func FormatMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for k, v := range m {
		lines = append(lines, k+"="+strconv.Quote(v))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// ContainerResource reads a container's request or limit in units of the divisor, rounded up. A
// limit of cpu, memory or ephemeral-storage that is not set is the Pod's, and without one the
// node's allocatable.
func ContainerResource(pod *v1.Pod, container string, r *v1.ResourceFieldSelector,
	allocatable v1.ResourceList) (string, error) {
	if r.ContainerName != "" {
		container = r.ContainerName
	}
	c := containerByName(pod, container)
	if c == nil {
		return "", fmt.Errorf("container %s not found", container)
	}
	kind, name, _ := strings.Cut(r.Resource, ".")
	var list v1.ResourceList
	switch kind {
	case "limits":
		list = c.Resources.Limits
	case "requests":
		list = c.Resources.Requests
	}
	if list == nil && kind != "limits" && kind != "requests" || !isKnownResource(name) {
		return "", fmt.Errorf("unsupported container resource : %v", r.Resource)
	}
	q := list[v1.ResourceName(name)]
	if kind == "limits" && q.IsZero() && !strings.HasPrefix(name, v1.ResourceHugePagesPrefix) {
		q = allocatable[v1.ResourceName(name)]
		if own := podLimit(pod, v1.ResourceName(name)); !q.IsZero() && !own.IsZero() {
			q = own
		}
	}
	return strconv.FormatInt(divide(name, q, r.Divisor), 10), nil
}

// podLimit is a limit of the Pod as a whole; zero where it has none.
func podLimit(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	if pod.Spec.Resources == nil || !resourcehelper.IsSupportedPodLevelResource(name) {
		return resource.Quantity{}
	}
	return pod.Spec.Resources.Limits[name]
}

func isKnownResource(name string) bool {
	switch v1.ResourceName(name) {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return true
	}
	return strings.HasPrefix(name, v1.ResourceHugePagesPrefix)
}

func divide(name string, q, divisor resource.Quantity) int64 {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == string(v1.ResourceCPU) {
		return int64(math.Ceil(float64(q.MilliValue()) / float64(divisor.MilliValue())))
	}
	return int64(math.Ceil(float64(q.Value()) / float64(divisor.Value())))
}

func containerByName(pod *v1.Pod, name string) *v1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return &pod.Spec.InitContainers[i]
		}
	}
	return nil
}
