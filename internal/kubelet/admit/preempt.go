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

// Preempting and PreemptMessage tell that a Pod was ended to make room for a critical one; PreemptCondition is the message of its DisruptionTarget.
const (
	Preempting       = "Preempting"
	PreemptMessage   = "Preempted in order to admit critical pod"
	PreemptCondition = "Pod was preempted by Kubelet to accommodate a critical pod."
)

// MakeRoom judges a Pod as Admit does and, where a critical Pod lacks nothing but resources, names the Pods that have to go for it: as few as possible, BestEffort
// ones before Burstable and Guaranteed ones, of those in one class the one that comes nearest to what is still missing.
// https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/
func MakeRoom(in In) (victims []*v1.Pod, no *reason.Refusal) {
	no = Admit(in)
	if no == nil || !pod.IsCritical(in.Pod) || !strings.HasPrefix(string(no.Code), outOf) {
		return nil, no
	}
	if other := first(predicates[1:], in); other != nil { // nobody is ended in vain
		return nil, other
	}
	var missing needs
	for _, s := range shortages(in) {
		missing = append(missing, need{s.Resource, s.Missing()})
	}
	victims, left := choose(in, missing)
	if len(left) > 0 {
		return nil, &reason.Refusal{
			Code: reason.AdmitUnexpected, By: "kubelet/admit", Fix: no.Fix,
			Detail: "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: " + left.String(),
		}
	}
	in.Others = slices.DeleteFunc(slices.Clone(in.Others), func(p *v1.Pod) bool { return slices.Contains(victims, p) })
	if no := Admit(in); no != nil {
		return nil, no
	}
	return victims, nil
}

// outOf begins the codes of refusals for want of a resource.
const outOf = "OutOf"

// need is how much of a resource is missing.
type need struct {
	what v1.ResourceName
	much int64
}

type needs []need

// String prints needs as upstream's refusals do.
func (n needs) String() string {
	var b strings.Builder
	for _, r := range n {
		fmt.Fprintf(&b, "(res: %v, q: %d), ", r.what, r.much)
	}
	return "[" + b.String() + "]"
}

// without is what is still missing when the Pods are gone.
func (n needs) without(pods ...*v1.Pod) needs {
	var out needs
	for _, r := range n {
		for _, p := range pods {
			r.much -= takes(p, r.what)
		}
		if r.much > 0 {
			out = append(out, r)
		}
	}
	return out
}

// distance tells how far a Pod's requests are from what is missing: 0 covers all of it.
func (n needs) distance(p *v1.Pod) float64 {
	sum := 0.0
	for _, r := range n {
		if lack := float64(r.much-takes(p, r.what)) / float64(r.much); lack > 0 {
			sum += lack * lack
		}
	}
	return sum
}

// takes is how much of a resource a Pod's leaving gives back.
func takes(p *v1.Pod, what v1.ResourceName) int64 {
	if what == v1.ResourcePods {
		return 1
	}
	v := fit.VectorOf(pod.Requests(p))
	switch what {
	case v1.ResourceCPU:
		return v.MilliCPU
	case v1.ResourceMemory:
		return v.Memory
	case v1.ResourceEphemeralStorage:
		return v.EphemeralStorage
	}
	return v.Scalar[what]
}

// choose picks victims; what is left is missing even if all that may go went.
func choose(in In, missing needs) (victims []*v1.Pod, left needs) {
	byClass := map[v1.PodQOSClass][]*v1.Pod{}
	for _, p := range in.Others {
		if yields(p, in.Pod) {
			c := resource.QOS(p)
			byClass[c] = append(byClass[c], p)
		}
	}
	best, burst, sure := byClass[v1.PodQOSBestEffort], byClass[v1.PodQOSBurstable], byClass[v1.PodQOSGuaranteed]
	if left := missing.without(slices.Concat(best, burst, sure)...); len(left) > 0 {
		return nil, left
	}
	fromSure := nearest(sure, missing.without(slices.Concat(best, burst)...))
	fromBurst := nearest(burst, missing.without(slices.Concat(best, fromSure)...))
	fromBest := nearest(best, missing.without(slices.Concat(fromBurst, fromSure)...))
	return slices.Concat(fromBest, fromBurst, fromSure), nil
}

// yields tells whether a Pod may be ended for the other.
func yields(p, by *v1.Pod) bool {
	return !pod.IsCritical(p) || p.Spec.Priority != nil && by.Spec.Priority != nil && *by.Spec.Priority > *p.Spec.Priority
}

// nearest takes Pods one by one, each time the one that leaves least missing, the smaller of equals and the younger of these (upstream: any of them), until nothing is missing.
func nearest(list []*v1.Pod, missing needs) []*v1.Pod {
	list = slices.Clone(list)
	var out []*v1.Pod
	for len(missing) > 0 && len(list) > 0 {
		p := slices.MinFunc(list, func(a, b *v1.Pod) int {
			return cmp.Or(cmp.Compare(missing.distance(a), missing.distance(b)), smaller(a, b), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
		list = slices.DeleteFunc(list, func(x *v1.Pod) bool { return x == p })
		out, missing = append(out, p), missing.without(p)
	}
	return out
}

func smaller(a, b *v1.Pod) int {
	for _, what := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		if c := cmp.Compare(takes(a, what), takes(b, what)); c != 0 {
			return c
		}
	}
	return 0
}
