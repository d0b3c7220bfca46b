package admit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/reason"
)

// Preempting and PreemptMessage tell that a Pod was ended to make room for a critical one;
// PreemptCondition is the message of its DisruptionTarget.
const (
	Preempting       = "Preempting"
	PreemptMessage   = "Preempted in order to admit critical pod"
	PreemptCondition = "Pod was preempted by Kubelet to accommodate a critical pod."
)

// PodsToPreempt checks a Pod as Admit does and, where a critical Pod lacks nothing but resources,
// names the Pods that have to go for it: as few as possible, BestEffort ones before Burstable and
// Guaranteed ones, of those in one class the one that comes nearest to what is still missing.
// https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/
func PodsToPreempt(in In) (victims []*v1.Pod, refusal *reason.Refusal) {
	refusal = Admit(in)
	if refusal == nil || !pod.IsCritical(in.Pod) || !strings.HasPrefix(string(refusal.Code), outOfPrefix) {
		return nil, refusal
	}
	if other := firstRefusal(predicates[1:], in); other != nil { // nobody is ended for nothing
		return nil, other
	}
	var missing admissionRequirements
	for _, s := range shortages(in) {
		missing = append(missing, admissionRequirement{s.Resource, s.Missing()})
	}
	victims, remaining := selectVictims(in, missing)
	if len(remaining) > 0 {
		return nil, &reason.Refusal{
			Code: reason.AdmitUnexpected, By: "kubelet/admit", Fix: refusal.Fix,
			Detail: "Unexpected error while attempting to recover from admission failure: preemption: error finding " +
				"a set of pods to preempt: no set of running pods found to reclaim resources: " + remaining.String(),
		}
	}
	in.OtherPods = slices.DeleteFunc(slices.Clone(in.OtherPods),
		func(p *v1.Pod) bool { return slices.Contains(victims, p) })
	if refusal := Admit(in); refusal != nil {
		return nil, refusal
	}
	return victims, nil
}

// outOfPrefix begins the codes of refusals for want of a resource.
const outOfPrefix = "OutOf"

// admissionRequirement is how much of a resource is missing.
type admissionRequirement struct {
	resourceName v1.ResourceName
	quantity     int64
}

type admissionRequirements []admissionRequirement

// String prints needs as upstream's refusals do.
func (n admissionRequirements) String() string {
	var b strings.Builder
	for _, r := range n {
		fmt.Fprintf(&b, "(res: %v, q: %d), ", r.resourceName, r.quantity)
	}
	return "[" + b.String() + "]"
}

// subtract is what is still missing when the Pods are gone.
func (n admissionRequirements) subtract(pods ...*v1.Pod) admissionRequirements {
	var out admissionRequirements
	for _, r := range n {
		for _, p := range pods {
			r.quantity -= podRequest(p, r.resourceName)
		}
		if r.quantity > 0 {
			out = append(out, r)
		}
	}
	return out
}

// distance tells how far a Pod's requests are from what is missing: 0 covers all of it.
func (n admissionRequirements) distance(p *v1.Pod) float64 {
	sum := 0.0
	for _, r := range n {
		if lack := float64(r.quantity-podRequest(p, r.resourceName)) / float64(r.quantity); lack > 0 {
			sum += lack * lack
		}
	}
	return sum
}

// podRequest is how much of a resource a Pod's leaving gives back.
func podRequest(p *v1.Pod, what v1.ResourceName) int64 {
	if what == v1.ResourcePods {
		return 1
	}
	v := fit.VectorOf(pod.Requests(p))
	return v.Get(what)
}

// selectVictims picks victims; what is left is missing even if all that may go went.
func selectVictims(in In, missing admissionRequirements) (victims []*v1.Pod, remaining admissionRequirements) {
	byClass := map[v1.PodQOSClass][]*v1.Pod{}
	for _, p := range in.OtherPods {
		if isPreemptable(p, in.Pod) {
			c := resource.QOS(p)
			byClass[c] = append(byClass[c], p)
		}
	}
	best, burst, sure := byClass[v1.PodQOSBestEffort], byClass[v1.PodQOSBurstable], byClass[v1.PodQOSGuaranteed]
	if remaining := missing.subtract(slices.Concat(best, burst, sure)...); len(remaining) > 0 {
		return nil, remaining
	}
	fromSure := closestPods(sure, missing.subtract(slices.Concat(best, burst)...))
	fromBurst := closestPods(burst, missing.subtract(slices.Concat(best, fromSure)...))
	fromBest := closestPods(best, missing.subtract(slices.Concat(fromBurst, fromSure)...))
	return slices.Concat(fromBest, fromBurst, fromSure), nil
}

// isPreemptable tells whether a Pod may be ended for the other.
func isPreemptable(p, by *v1.Pod) bool {
	return !pod.IsCritical(p) || p.Spec.Priority != nil && by.Spec.Priority != nil &&
		*by.Spec.Priority > *p.Spec.Priority
}

// closestPods takes Pods one by one, each time the one that leaves least missing, the smaller of
// equals and the younger of these (upstream: any of them), until nothing is missing.
func closestPods(list []*v1.Pod, missing admissionRequirements) []*v1.Pod {
	list = slices.Clone(list)
	var out []*v1.Pod
	for len(missing) > 0 && len(list) > 0 {
		p := slices.MinFunc(list, func(a, b *v1.Pod) int {
			return cmp.Or(cmp.Compare(missing.distance(a), missing.distance(b)), smallerRequest(a, b),
				b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name),
				cmp.Compare(a.UID, b.UID))
		})
		list = slices.DeleteFunc(list, func(x *v1.Pod) bool { return x == p })
		out, missing = append(out, p), missing.subtract(p)
	}
	return out
}

func smallerRequest(a, b *v1.Pod) int {
	for _, what := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		if c := cmp.Compare(podRequest(a, what), podRequest(b, what)); c != 0 {
			return c
		}
	}
	return 0
}
