package resource

import (
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	sum "k8s.io/component-helpers/resource"

	"github.com/gantry-project/gantry/internal/pod"
)

// QOS is the Pod's class: the one in its status when there is one (it never changes in a Pod's
// life), else computed from the spec.
func QOS(p *v1.Pod) v1.PodQOSClass {
	if p.Status.QOSClass != "" {
		return p.Status.QOSClass
	}
	return pod.QOS(p)
}

// ForPod is what the Pod's own cgroup enforces. Requests and limits are the effective ones: sums
// with the rule for init containers, pod-level resources, overhead. A limit is set only when every
// container has one, because an unlimited container makes the Pod unlimited.
func ForPod(pod *v1.Pod, o Options) Values {
	requests := sum.PodRequests(pod, sum.PodResourcesOptions{})
	limits := sum.PodLimits(pod, sum.PodResourcesOptions{})
	v := Values{Hugepages: hugepages(requests)}
	if o.PodPids > 0 {
		v.Pids = ptr(o.PodPids)
	}
	if QOS(pod) == v1.PodQOSBestEffort {
		v.Shares = ptr(uint64(minShares))
		return v
	}
	v.Shares = ptr(Shares(requests.Cpu().MilliValue()))
	if allContainersLimited(pod, v1.ResourceCPU) {
		v.Period, v.Quota = ptr(uint64(o.period())), ptr(int64(-1))
		if o.CFSQuota {
			v.Quota = ptr(Quota(limits.Cpu().MilliValue(), o.period()))
		}
	}
	if allContainersLimited(pod, v1.ResourceMemory) {
		v.Memory = ptr(limits.Memory().Value())
	}
	if o.MemoryQoS && o.Unified {
		v.Unified = podMemoryQoS(pod, requests.Memory().Value(), limits.Memory().Value(), o)
	}
	return v
}

// ForBurstable is what the burstable tier enforces: the shares of all its Pods' requests together,
// so that idle requests of one Pod serve another. With TieredReservation their requests for memory
// are kept from reclaim while others can give.
func ForBurstable(pods []*v1.Pod, o Options) Values {
	var milli int64
	for _, p := range pods {
		if QOS(p) == v1.PodQOSBurstable {
			r := sum.PodRequests(p, sum.PodResourcesOptions{})
			milli += r.Cpu().MilliValue()
		}
	}
	v := Values{Shares: ptr(Shares(milli))}
	if !o.Unified {
		return v
	}
	low := int64(0) // takes away what an earlier kubelet wrote
	if o.keepsTiers() {
		_, low = memoryRequests(pods)
	}
	v.Unified = map[string]string{"memory.low": strconv.FormatInt(low, 10)}
	return v
}

// ForBestEffort is what the besteffort tier enforces: the least share there is.
func ForBestEffort() Values { return Values{Shares: ptr(uint64(minShares))} }

// ForPods is what the cgroup of all Pods enforces: capacity without the reserved parts. The
// eviction threshold is not taken off, so that eviction acts before the kernel does.
func ForPods(capacity v1.ResourceList, r Reserved) Values {
	r.Eviction = nil
	a := Allocatable(capacity, r)
	v := Values{Hugepages: hugepages(capacity)}
	if n := a.Cpu().MilliValue(); n > 0 {
		v.Shares = ptr(Shares(n))
	}
	if n := a.Memory().Value(); n > 0 {
		v.Memory = ptr(n)
	}
	return v
}

// ForReserved is what the cgroup of the node's own programs enforces: their reservation.
// compressible: only shares of the CPU, for whoever has too little of those is slow and not killed.
// With MemoryQoS the memory is kept from reclaim as well.
func ForReserved(list v1.ResourceList, compressible bool, o Options) Values {
	var v Values
	if q, ok := list[v1.ResourceCPU]; ok {
		v.Shares = ptr(Shares(q.MilliValue()))
	}
	if compressible {
		return v
	}
	v.Hugepages = hugepages(list)
	if q, ok := list[v1.ResourceMemory]; ok {
		v.Memory = ptr(q.Value())
		if o.MemoryQoS && o.Unified {
			v.Unified = map[string]string{"memory.min": strconv.FormatInt(q.Value(), 10)}
		}
	}
	if q, ok := list["pid"]; ok {
		v.Pids = ptr(q.Value())
	}
	return v
}

// allContainersLimited tells whether the Pod as a whole has a limit for the resource: one at pod
// level, or one on every container.
func allContainersLimited(pod *v1.Pod, name v1.ResourceName) bool {
	if r := pod.Spec.Resources; r != nil && positive(r.Limits, name) {
		return true
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if !positive(list[i].Resources.Limits, name) {
				return false
			}
		}
	}
	return true
}

func positive(l v1.ResourceList, name v1.ResourceName) bool {
	q := l[name]
	return q.Sign() > 0
}

func hugepages(l v1.ResourceList) map[int64]int64 {
	var m map[int64]int64
	for name, q := range l {
		size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
		if !ok {
			continue
		}
		page, err := resource.ParseQuantity(size)
		if err != nil {
			continue // the API refuses such a name; a capacity of the kernel cannot have it
		}
		if m == nil {
			m = map[int64]int64{}
		}
		m[page.Value()] = q.Value()
	}
	return m
}

func ptr[T any](v T) *T { return &v }
