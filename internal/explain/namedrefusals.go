package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// strictGroups is a Pod that wants no groups of its image on a node that cannot leave them out.
func strictGroups(in In, f *finding.Finding) {
	merge := corev1.SupplementalGroupsPolicyMerge
	f.Field, f.Value, f.Want = "spec.securityContext.supplementalGroupsPolicy", "Strict", string(merge)
	f.Message = fmt.Sprintf("Node %s refused the Pod: its supplementalGroupsPolicy is Strict, and the node's runtime "+
		"cannot leave out the groups of the image (status.features.supplementalGroupsPolicy of the node is not true).",
		in.Pod.Spec.NodeName)
	f.Remedies = asRemedies([]Fix{editedPodFix(in, "let the groups of the image be added: "+
		"supplementalGroupsPolicy Merge", func(s *corev1.PodSpec) {
		if s.SecurityContext != nil {
			s.SecurityContext.SupplementalGroupsPolicy = &merge
		}
	}), {Description: "or place the Pod on a node whose status.features.supplementalGroupsPolicy is true"}})
}

// topologyRefused is a Pod whose exclusive CPUs, memory or devices no NUMA node has together.
func topologyRefused(in In, f *finding.Finding) {
	for _, c := range containers(in.Pod) {
		q, has := c.spec.Resources.Limits[corev1.ResourceCPU]
		if !has || f.Field != "status.reason" && f.Field != "" {
			continue
		}
		f.Field, f.Value = pathOf(in.Pod, c)+".resources.limits.cpu", q.String()
		f.Numbers = map[string]string{"cpu": f.Value}
	}
	if f.Field == "status.reason" || f.Field == "" {
		return
	}
	f.Message = fmt.Sprintf("Node %s refused the Pod: what its containers ask for (%s %s) is not free together on the "+
		"NUMA nodes that the kubelet's topologyManagerPolicy allows: %s. The scheduler does not see NUMA nodes.",
		in.Pod.Spec.NodeName, f.Field, f.Value, strings.TrimSuffix(oneLine(in.Pod.Status.Message), "."))
	f.Remedies = asRemedies(append(textFixes("ask for no more CPUs, memory and devices than one NUMA node has free",
		"or let the kubelet of the node have topologyManagerPolicy best-effort"), placedByScheduler(in)))
}

// devicesRefused is a Pod whose devices the node's plugin did not give.
func devicesRefused(in In, f *finding.Finding) {
	words := in.Pod.Status.Message
	for _, c := range containers(in.Pod) {
		var names []string
		for name := range c.spec.Resources.Limits {
			names = append(names, string(name))
		}
		slices.Sort(names)
		for _, name := range names {
			if !strings.Contains(name, "/") || !strings.Contains(words, name) {
				continue
			}
			q := c.spec.Resources.Limits[corev1.ResourceName(name)]
			f.Field, f.Value = pathOf(in.Pod, c)+".resources.limits."+name, q.String()
			f.Numbers = map[string]string{name: f.Value}
			f.Message = fmt.Sprintf("Node %s refused the Pod: container %s asks for %s of %s, and the node's device "+
				"plugin did not give them: %s", in.Pod.Spec.NodeName, c.spec.Name, f.Value, name, oneLine(words))
			f.Message += pastScheduler(in)
			f.Remedies = asRemedies([]Fix{{Description: fmt.Sprintf("see what the Pod of the device plugin of %s "+
				"on node %s says", name, in.Pod.Spec.NodeName)}, placedByScheduler(in)})
			return
		}
	}
}
