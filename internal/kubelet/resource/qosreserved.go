package resource

import v1 "k8s.io/api/core/v1"

// Tiers are what the cgroups of the burstable and the besteffort tier enforce.
type Tiers struct{ Burstable, BestEffort Values }

// ForTiers is what the tiers enforce: the shares, and with MemoryReserved limits of memory, so that
// lower QoS classes cannot take what higher ones request: the burstable tier gets what is
// allocatable without that share of the guaranteed Pods' requests, the besteffort tier that without
// the burstable ones' share. Without MemoryReserved limits are as they are.
func ForTiers(pods []*v1.Pod, allocatable v1.ResourceList, o Options) Tiers {
	t := Tiers{ForBurstable(pods, o), ForBestEffort()}
	memory := allocatable.Memory().Value()
	if o.MemoryReserved == nil || memory == 0 {
		return t
	}
	guaranteed, burstable := memoryRequests(pods)
	most := memory - guaranteed**o.MemoryReserved/100
	rest := most - burstable**o.MemoryReserved/100
	t.Burstable.Memory, t.BestEffort.Memory = &most, &rest
	return t
}
