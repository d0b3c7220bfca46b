package resource

import (
	"math"
	"strconv"

	v1 "k8s.io/api/core/v1"
	sum "k8s.io/component-helpers/resource"
)

// keepsTiers tells that requests are kept from reclaim by tier (KEP-2570).
func (o Options) keepsTiers() bool { return o.MemoryQoS && o.TieredReservation && o.Unified }

// podMemoryQoS are the files of a Pod's cgroup: its request is kept from reclaim, and a Pod with
// resources of its own and a limit is slowed down as a whole.
func podMemoryQoS(pod *v1.Pod, request, limit int64, o Options) map[string]string {
	var m map[string]string
	if o.TieredReservation && request > 0 {
		m = map[string]string{reservationFile(pod): strconv.FormatInt(request, 10)}
	}
	if !sum.IsPodLevelResourcesSet(pod) || limit == 0 || request == limit || o.ThrottlingFactor == 0 ||
		pod.Spec.Resources.Limits.Memory().IsZero() && !allContainersLimited(pod, v1.ResourceMemory) {
		return m
	}
	if high := throttleAt(request, limit, o.ThrottlingFactor); high > request {
		if m == nil {
			m = map[string]string{}
		}
		m["memory.high"] = strconv.FormatInt(high, 10)
	}
	return m
}

// throttleAt is the use of memory from which on the kernel slows down, in whole pages.
func throttleAt(request, ceiling int64, factor float64) int64 {
	return int64(math.Floor(float64(request)+float64(ceiling-request)*factor)/pageSize) * pageSize
}

// memoryRequests are what the Guaranteed and the Burstable Pods request together, in bytes.
func memoryRequests(pods []*v1.Pod) (guaranteed, burstable int64) {
	for _, p := range pods {
		r := sum.PodRequests(p, sum.PodResourcesOptions{})
		switch QOS(p) {
		case v1.PodQOSGuaranteed:
			guaranteed += r.Memory().Value()
		case v1.PodQOSBurstable:
			burstable += r.Memory().Value()
		}
	}
	return guaranteed, burstable
}

// ProtectedMemory is the bytes that the kernel keeps for Guaranteed Pods and, as long as it can,
// for Burstable ones; 0 where tiers keep nothing.
func ProtectedMemory(pods []*v1.Pod, o Options) (min, low int64) {
	if !o.Unified || !o.keepsTiers() {
		return 0, 0
	}
	return memoryRequests(pods)
}

// ForAllPods is what the cgroup of all Pods keeps from reclaim: a cgroup gives its children no more
// protection than it has. Without TieredReservation it is nothing, which takes away what an earlier
// kubelet wrote. Cgroup v1 has no such files.
func ForAllPods(pods []*v1.Pod, o Options) Values {
	if !o.Unified {
		return Values{}
	}
	if !o.keepsTiers() {
		return Values{Unified: map[string]string{"memory.min": "0", "memory.low": "0"}}
	}
	guaranteed, burstable := memoryRequests(pods)
	return Values{Unified: map[string]string{"memory.min": strconv.FormatInt(guaranteed+burstable, 10),
		"memory.low": strconv.FormatInt(burstable, 10)}}
}
