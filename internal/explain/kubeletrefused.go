package explain

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// refusedByKubelet replaces the words with which a kubelet refused a Pod by what they mean, where
// that is known, with what mends it.
func refusedByKubelet(a *Answer, in In) {
	f, ok := failedFinding(in)
	if !ok || f.Code == "DeadlineExceeded" || f.Message == in.Pod.Status.Message {
		return
	}
	a.Facts = append(a.Facts, "the kubelet's words: "+a.Cause)
	a.Cause = f.Message
	a.Fixes = append(a.Fixes, remedies(f.Remedies)...)
	if whatif.OwnerOf(in.Pod).Kind == "" {
		a.Next = "nothing: a Pod that a kubelet has refused stays as it is until somebody deletes it"
	}
}

// pastScheduler is a sentence, with a space before it, of a Pod that named its node itself: no
// scheduler looked whether it fits there.
func pastScheduler(in In) string {
	if _, _, bound := newest[journal.Bound](in, nil); bound || in.Pod.Spec.NodeName == "" {
		return ""
	}
	return fmt.Sprintf(" It named that node itself (spec.nodeName %s), so no scheduler looked whether it fits.",
		in.Pod.Spec.NodeName)
}

// placedByScheduler makes a Pod anew without the name of a node.
func placedByScheduler(in In) Fix {
	return editedPodFix(in, "or let the scheduler choose a node that fits: make it anew without spec.nodeName",
		func(s *corev1.PodSpec) { s.NodeName = "" })
}

// smallerRequest lowers the largest request of a resource to what the node has left, from the
// kubelet's numbers: requested, used, capacity.
func smallerRequest(in In, resource string, numbers []string) []Fix {
	n := func(i int) int64 { v, _ := strconv.ParseInt(numbers[i], 10, 64); return v }
	left := n(3) - n(2)
	milli := resource == string(corev1.ResourceCPU)
	total := 0
	for _, c := range containers(in.Pod) {
		if _, has := c.spec.Resources.Requests[corev1.ResourceName(resource)]; has {
			total++
		}
	}
	if left <= 0 || total != 1 {
		return textFixes("request less of " + resource)
	}
	to := *apiresource.NewQuantity(left, apiresource.BinarySI)
	if milli {
		to = *apiresource.NewMilliQuantity(left, apiresource.DecimalSI)
	}
	return []Fix{editedPodFix(in, fmt.Sprintf("lower the request of %s to %s, which node %s has left", resource,
		to.String(), in.Pod.Spec.NodeName), func(s *corev1.PodSpec) {
		for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
			for i := range list {
				r := &list[i].Resources
				if _, has := r.Requests[corev1.ResourceName(resource)]; !has {
					continue
				}
				r.Requests[corev1.ResourceName(resource)] = to
				if most, limited := r.Limits[corev1.ResourceName(resource)]; limited && to.Cmp(most) > 0 {
					r.Requests[corev1.ResourceName(resource)] = most
				}
			}
		}
	})}
}

// namedRefusal says in whole sentences by which field of a Pod its kubelet refused it, with what
// mends it. f has the kubelet's words, and the field that they quote.
func namedRefusal(in In, f *finding.Finding) {
	p := in.Pod
	node := p.Spec.NodeName
	switch {
	case f.Code == "NodePorts":
		portRefused(in, f)
	case f.Code == "SysctlForbidden" && f.Field != "status.reason":
		f.Message = fmt.Sprintf("Node %s refused the Pod: sysctl %s (%s) is not safe for other Pods, and its "+
			"kubelet does not allow it (allowedUnsafeSysctls). The Pod has failed for good and is not tried "+
			"again.", node,
			f.Value, f.Field)
		f.Remedies = append(asRemedies([]Fix{editedPodFix(in, fmt.Sprintf("do without sysctls %s", f.Value),
			func(s *corev1.PodSpec) {
				if s.SecurityContext != nil {
					s.SecurityContext.Sysctls = slices.DeleteFunc(slices.Clone(s.SecurityContext.Sysctls),
						func(x corev1.Sysctl) bool { return x.Name == f.Value })
				}
			})}), finding.Remedy{Say: fmt.Sprintf("or let the kubelet of node %s allow it: allowedUnsafeSysctls in "+
			"its configuration, or --allowed-unsafe-sysctls=%s", node, f.Value)})
	case f.Code == "SupplementalGroupsPolicyNotSupported":
		strictGroups(in, f)
	case f.Code == "TopologyAffinityError":
		topologyRefused(in, f)
	case f.Code == "UnexpectedAdmissionError":
		devicesRefused(in, f)
	case f.Code == "AppArmor":
		for _, c := range containers(p) {
			if s := c.spec.SecurityContext; s != nil && s.AppArmorProfile != nil {
				f.Field, f.Value = pathOf(p, c)+".securityContext.appArmorProfile", string(s.AppArmorProfile.Type)
			}
		}
		if s := p.Spec.SecurityContext; f.Field == "status.reason" && s != nil && s.AppArmorProfile != nil {
			f.Field, f.Value = "spec.securityContext.appArmorProfile", string(s.AppArmorProfile.Type)
		}
		if f.Field == "status.reason" {
			return
		}
		f.Message = fmt.Sprintf("Node %s refused the Pod: it asks for an AppArmor profile (%s), which that node "+
			"cannot enforce: %s.", node, f.Field, oneLine(p.Status.Message))
		f.Remedies = asRemedies([]Fix{editedPodFix(in, "do without the AppArmor profile", func(s *corev1.PodSpec) {
			if s.SecurityContext != nil {
				s.SecurityContext.AppArmorProfile = nil
			}
			for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
				for i := range list {
					if list[i].SecurityContext != nil {
						list[i].SecurityContext.AppArmorProfile = nil
					}
				}
			}
		})})
	}
}

// portRefused is the host port for which a kubelet refused a Pod, and who has it.
func portRefused(in In, f *finding.Finding) {
	node := in.Pod.Spec.NodeName
	j := portsRefusal(in, refusalOf(node))
	f.Field, f.Value, f.Related = j.field, j.value, j.related
	f.Numbers = map[string]string{"hostPort": j.value}
	f.Message = fmt.Sprintf("Node %s refused the Pod: its hostPort %s (%s) is taken there.", node, j.value, j.field)
	if len(j.related) > 0 {
		o := j.related[0]
		f.Message = fmt.Sprintf("Node %s refused the Pod: its hostPort %s (%s) is that of Pod %s in namespace %s, "+
			"which runs there.", node, j.value, j.field, o.Name, o.Namespace)
	}
	f.Message += pastScheduler(in)
	f.Remedies = asRemedies([]Fix{editedPodFix(in, fmt.Sprintf("do without hostPort %s: a Service leads to the Pod as "+
		"well", j.value), func(s *corev1.PodSpec) {
		for i := range s.Containers {
			for k := range s.Containers[i].Ports {
				if strconv.Itoa(int(s.Containers[i].Ports[k].HostPort)) == j.value {
					s.Containers[i].Ports[k].HostPort = 0
				}
			}
		}
	}), placedByScheduler(in)})
}

// refusedAlike counts the Pods that were refused as the one that is explained: their controller
// makes another for each.
func (s Subject) refusedAlike() []string {
	p := s.WorstPod.Pod
	if p == nil || p.Status.Phase != corev1.PodFailed || p.Status.Reason == "" {
		return nil
	}
	n := 0
	for _, x := range s.Pods {
		if x.Status.Phase == corev1.PodFailed && x.Status.Reason == p.Status.Reason && !pod.IsReady(x) {
			n++
		}
	}
	if n < 2 {
		return nil
	}
	return []string{fmt.Sprintf("%d Pods failed so (%s): for each its controller makes another, and they stay until "+
		"they are deleted", n, p.Status.Reason)}
}
