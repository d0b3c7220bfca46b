package admit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// Resize is a request that a running Pod get other resources.
type Resize struct {
	Pod       *v1.Pod // with the sizes it wants
	Allocated *v1.Pod // the same Pod with the sizes it has been given
	Since     time.Time
}

// Policies are the node's resource managers that stand in the way of a resize.
type Policies struct {
	CPU    string // cpuManagerPolicy
	Memory string // memoryManagerPolicy
	Swap   bool   // containers may swap
}

const staticPolicy = "static"

// CanResize checks an in-place resize (upstream: canResizePod): nil lets it happen, a refusal of
// code Deferred may be lifted by others' leaving, and wraps a refusal whose code is what stands in
// the way; one of code Infeasible is never lifted here (KEP-1287).
// Others are all admitted Pods but this one, with what they have been given.
func CanResize(r Resize, node *v1.Node, others []*v1.Pod, p Policies) *reason.Refusal {
	refusal := infeasible(r, p)
	if refusal == nil && node != nil {
		stripped := *r.Pod
		stripped.Status = v1.PodStatus{} // what it has now does not count, only what it wants
		if refusal = firstRefusal(predicates, In{Pod: &stripped, Node: node, OtherPods: others}); refusal != nil {
			refusal.Code, refusal.Err = reason.ResizeDeferred, &reason.Refusal{Code: refusal.Code}
		}
	}
	if refusal != nil {
		refusal.By = "kubelet/admit"
	}
	return refusal
}

// infeasible: more than the node has at all is only deferred, as upstream has it since v1.36: the
// node may grow.
func infeasible(r Resize, p Policies) *reason.Refusal {
	never := func(fix, format string, args ...any) *reason.Refusal {
		return &reason.Refusal{Code: reason.ResizeInfeasible, Detail: fmt.Sprintf(format, args...), Fix: fix}
	}
	switch {
	case pod.IsStatic(r.Pod):
		return never("change the static Pod's file: it is made anew", "In-place resize of static-pods is not supported")
	case p.Swap && mayUseSwap(r):
		return never("set resizePolicy RestartContainer for memory",
			"In-place resize of containers with swap is not supported.")
	}
	if resource.QOS(r.Pod) == v1.PodQOSGuaranteed {
		if p.CPU == staticPolicy && changesResource(r, v1.ResourceCPU) {
			return never("make the Pod anew",
				"Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"%s\"", staticPolicy)
		}
		if p.Memory == "Static" && changesResource(r, v1.ResourceMemory) {
			return never("make the Pod anew",
				"Resize is infeasible for Guaranteed Pods alongside Memory Manager policy \"%s\"", "Static")
		}
	}
	return nil
}

// changesResource tells whether a container's request for the resource differs.
func changesResource(r Resize, name v1.ResourceName) bool {
	want, have := pod.AllocationOf(r.Pod), pod.AllocationOf(r.Allocated)
	for c, w := range want.Containers {
		h := have.Containers[c]
		if a, b := w.Requests[name], h.Requests[name]; a.Cmp(b) != 0 {
			return true
		}
	}
	return false
}

// mayUseSwap tells whether a container whose memory request changes would go on running with swap
// that was measured by the old one.
func mayUseSwap(r Resize) bool {
	have := pod.AllocationOf(r.Allocated)
	for _, list := range [][]v1.Container{r.Pod.Spec.InitContainers, r.Pod.Spec.Containers} {
		for i := range list {
			a, b := list[i].Resources.Requests[v1.ResourceMemory],
				have.Containers[list[i].Name].Requests[v1.ResourceMemory]
			if a.Cmp(b) != 0 && pod.ResizePolicy(&list[i], v1.ResourceMemory) != v1.RestartContainer {
				return true
			}
		}
	}
	return false
}

// SortResizes sorts resizes by which is to be decided first: those that ask for no more than they
// have, then by priority, then Guaranteed Pods, then who has waited longest.
func SortResizes(list []Resize) {
	slices.SortStableFunc(list, func(a, b Resize) int {
		return cmp.Or(
			cmp.Compare(requestIncrease(a), requestIncrease(b)),
			cmp.Compare(pod.Priority(b.Pod), pod.Priority(a.Pod)),
			cmp.Compare(qosRank(a), qosRank(b)),
			a.Since.Compare(b.Since),
			cmp.Compare(a.Pod.UID, b.Pod.UID),
		)
	})
}

func requestIncrease(r Resize) int {
	want, have := pod.Totals(r.Pod).Requests, pod.Totals(r.Allocated).Requests
	if want.Memory().Cmp(*have.Memory()) > 0 || want.Cpu().Cmp(*have.Cpu()) > 0 {
		return 1
	}
	return 0
}

func qosRank(r Resize) int {
	if resource.QOS(r.Pod) == v1.PodQOSGuaranteed {
		return 0
	}
	return 1
}
