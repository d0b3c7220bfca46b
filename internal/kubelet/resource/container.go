package resource

import (
	"maps"
	"math"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// ForContainer is what CRI is told about one container: shares from the request (or the limit when
// there is no request), quota and memory from the limits (a pod-level limit where the container has
// none), oom_score_adj by QoS.
func ForContainer(pod *v1.Pod, c *v1.Container, node Node, o Options) *runtimeapi.LinuxContainerResources {
	milli, hasCPU := c.Resources.Requests[v1.ResourceCPU]
	cpuLimit, memLimit := limitOf(pod, c, v1.ResourceCPU), limitOf(pod, c, v1.ResourceMemory)
	shares := milli.MilliValue()
	if !hasCPU {
		shares = cpuLimit.MilliValue()
	}
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          int64(Shares(shares)),
		MemoryLimitInBytes: memLimit.Value(),
		OomScoreAdj:        OOMScoreAdj(pod, c, node.MemoryBytes),
	}
	if o.CFSQuota {
		r.CpuPeriod = o.period()
		r.CpuQuota = Quota(cpuLimit.MilliValue(), r.CpuPeriod)
	}
	pages := hugepages(c.Resources.Limits)
	for _, size := range slices.Sorted(maps.Keys(pages)) {
		r.HugepageLimits = append(r.HugepageLimits, &runtimeapi.HugepageLimit{PageSize: pageName(size),
			Limit: uint64(pages[size])})
	}
	if o.Unified {
		r.Unified = unified(pod, c, node, o)
	} else if o.Swap.Counted { // cgroup v1 has no LimitedSwap: memory and swap together are bounded
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
	}
	return r
}

// limitOf is the container's limit, or the Pod's when only that is set; zero means none.
func limitOf(pod *v1.Pod, c *v1.Container, name v1.ResourceName) resource.Quantity {
	if q := c.Resources.Limits[name]; q.Sign() > 0 {
		return q
	}
	if pod.Spec.Resources != nil {
		return pod.Spec.Resources.Limits[name]
	}
	return resource.Quantity{}
}

// unified lists the cgroup v2 files CRI has no field for.
func unified(pod *v1.Pod, c *v1.Container, node Node, o Options) map[string]string {
	m := map[string]string{"memory.high": "max"}
	if o.MemoryQoS {
		m = memoryQoS(pod, c, node, o)
	}
	if o.GroupOOM {
		m["memory.oom.group"] = "1"
	}
	if o.Swap.Counted {
		m["memory.swap.max"] = strconv.FormatInt(swapLimit(pod, c, node, o.Swap), 10)
	}
	return m
}

// memoryQoS is what protects a container's request from reclaim, and from where on the container is
// slowed down: request + factor × (limit, or what the node can give, − request), in whole pages. A
// container that only the Pod's limit bounds is slowed down with its Pod.
func memoryQoS(pod *v1.Pod, c *v1.Container, node Node, o Options) map[string]string {
	request, limit := c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value()
	m := map[string]string{"memory.min": "0", "memory.low": "0"}
	if o.TieredReservation && request != 0 {
		m = map[string]string{reservationFile(pod): strconv.FormatInt(request, 10)}
	}
	podOnly := limit == 0 && pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Memory().IsZero()
	if o.ThrottlingFactor == 0 || podOnly || request == limit && request != 0 {
		return m
	}
	ceiling := limit
	if ceiling == 0 {
		ceiling = node.Allocatable.Memory().Value()
	}
	high := throttleAt(request, ceiling, o.ThrottlingFactor)
	if ceiling > 0 && high > request {
		m["memory.high"] = strconv.FormatInt(high, 10)
	}
	return m
}

// reservationFile is the file that keeps a Pod's request from reclaim: for good, or while others
// can give.
func reservationFile(pod *v1.Pod) string {
	if QOS(pod) == v1.PodQOSGuaranteed {
		return "memory.min"
	}
	return "memory.low"
}

// swapLimit is how much a container may swap: with LimitedSwap its share of the node's swap by its
// request for memory, if its Pod is Burstable and not critical and it may use more than it requests
// (KEP-2400); else nothing.
func swapLimit(p *v1.Pod, c *v1.Container, node Node, s Swap) int64 {
	request, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory()
	switch {
	case !s.Limited, pod.IsCritical(p), QOS(p) != v1.PodQOSBurstable, request.Cmp(*limit) == 0,
		node.MemoryBytes <= 0, request.Value() > node.MemoryBytes:
		return 0
	}
	return int64(float64(request.Value()) / float64(node.MemoryBytes) * float64(s.Bytes))
}

// pageName writes a page size as the runtime spells it: 2MB, 1GB.
func pageName(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for bytes >= 1024 && bytes%1024 == 0 && i < len(units)-1 {
		bytes, i = bytes/1024, i+1
	}
	return strconv.FormatInt(bytes, 10) + units[i]
}

const pageSize = 4096

// The scores: the kernel adds them to the permille of memory a process uses, so -997 survives
// nearly everything and 1000 goes first.
const (
	guaranteedScore = -997
	bestEffortScore = 1000
)

// OOMScoreAdj ranks a container for the kernel's OOM killer: -997 for Guaranteed and node-critical
// Pods, 1000 for BestEffort, and between 3 and 999 for Burstable, the lower the more memory it asks
// for. A sidecar never ranks above the smallest regular container, so that it does not die first.
func OOMScoreAdj(p *v1.Pod, c *v1.Container, memoryCapacity int64) int64 {
	class := QOS(p)
	switch {
	case nodeCritical(p), class == v1.PodQOSGuaranteed:
		return guaranteedScore
	case class == v1.PodQOSBestEffort:
		return bestEffortScore
	case memoryCapacity <= 0:
		return bestEffortScore - 1
	}
	spare := spareMemory(p)
	adj := 1000 - 1000*(c.Resources.Requests.Memory().Value()+spare)/memoryCapacity
	if isSidecar(p, c.Name) {
		least := int64(math.MaxInt64)
		for i := range p.Spec.Containers {
			least = min(least, p.Spec.Containers[i].Resources.Requests.Memory().Value())
		}
		adj = min(adj, 1000-1000*(least+spare)/memoryCapacity)
	}
	return min(max(adj, 1000+guaranteedScore), bestEffortScore-1)
}

// spareMemory is each container's part of a pod-level memory request that no container asks for by
// itself.
func spareMemory(p *v1.Pod) int64 {
	if p.Spec.Resources == nil || !positive(p.Spec.Resources.Requests, v1.ResourceMemory) {
		return 0
	}
	remaining, n := p.Spec.Resources.Requests.Memory().Value(), int64(0)
	for i := range p.Spec.Containers {
		remaining, n = remaining-p.Spec.Containers[i].Resources.Requests.Memory().Value(), n+1
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; pod.IsSidecar(c) {
			remaining, n = remaining-c.Resources.Requests.Memory().Value(), n+1
		}
	}
	if n == 0 || remaining <= 0 {
		return 0
	}
	return remaining / n
}

func isSidecar(p *v1.Pod, name string) bool {
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.Name == name {
			return pod.IsSidecar(c)
		}
	}
	return false
}

// nodeCritical: a critical Pod of the class system-node-critical.
func nodeCritical(p *v1.Pod) bool {
	return p.Spec.PriorityClassName == "system-node-critical" && pod.IsCritical(p)
}

// GuaranteedContainer tells whether a container's CPU and memory requests are set and equal to its
// limits: what a container of a Pod with pod-level resources needs for exclusive CPUs and memory.
func GuaranteedContainer(c *v1.Container) bool {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		r, l := c.Resources.Requests[name], c.Resources.Limits[name]
		if r.IsZero() || r.Cmp(l) != 0 {
			return false
		}
	}
	return true
}
