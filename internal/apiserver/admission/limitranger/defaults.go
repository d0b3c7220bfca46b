package limitranger

import (
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// limitRangerAnnotation says what was filled in.
const limitRangerAnnotation = "kubernetes.io/limit-ranger"

// mergePodResourceRequirements writes the default requests and limits of a LimitRange into
// containers that state none.
func mergePodResourceRequirements(r *corev1.LimitRange, pod *corev1.Pod) {
	defaults := corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{}}
	for _, l := range r.Spec.Limits {
		if l.Type != corev1.LimitTypeContainer {
			continue
		}
		for k, v := range l.DefaultRequest {
			defaults.Requests[k] = v.DeepCopy()
		}
		for k, v := range l.Default {
			defaults.Limits[k] = v.DeepCopy()
		}
	}
	var messages []string
	for i := range pod.Spec.Containers {
		messages = append(messages, mergeContainerResources(&pod.Spec.Containers[i], defaults, "container")...)
	}
	for i := range pod.Spec.InitContainers {
		messages = append(messages, mergeContainerResources(&pod.Spec.InitContainers[i], defaults, "init container")...)
	}
	if len(messages) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[limitRangerAnnotation] = "LimitRanger plugin set: " + strings.Join(messages, "; ")
}

func mergeContainerResources(c *corev1.Container, defaults corev1.ResourceRequirements, kind string) []string {
	var messages []string
	for _, part := range []struct {
		what string
		list *corev1.ResourceList
		from corev1.ResourceList
	}{{"request", &c.Resources.Requests, defaults.Requests}, {"limit", &c.Resources.Limits, defaults.Limits}} {
		if *part.list == nil {
			*part.list = corev1.ResourceList{}
		}
		var set []string
		for k, v := range part.from {
			if _, there := (*part.list)[k]; !there {
				(*part.list)[k] = v.DeepCopy()
				set = append(set, string(k))
			}
		}
		if len(set) > 0 {
			sort.Strings(set)
			messages = append(messages, fmt.Sprintf("%s %s for %s %s", strings.Join(set, ", "), part.what, kind,
				c.Name))
		}
		if len(*part.list) == 0 {
			*part.list = nil
		}
	}
	return messages
}
