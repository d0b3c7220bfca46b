package resource

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Driver says who owns the cgroup tree and how its members are named.
type Driver string

// The two drivers a runtime may report.
const (
	Cgroupfs Driver = "cgroupfs"
	Systemd  Driver = "systemd"
)

// Options is what the kubelet's configuration says about resources. The zero value is cgroupfs,
// tree at the root of the hierarchy, no CFS quota.
type Options struct {
	Driver   Driver        // empty means Cgroupfs
	Root     string        // cgroup all Pods live under, like "/gantry-1"; empty means the root of the hierarchy
	CFSQuota bool          // enforce cpu limits (cpuCFSQuota, default true upstream)
	Period   time.Duration // CFS period; 0 means 100 ms

	PodPids int64 // processes per Pod (podPidsLimit); 0 or less is no limit of our own

	Unified bool // the node runs cgroup v2
	// MemoryQoS gate: memory.min, memory.low and memory.high (v2 only)
	MemoryQoS bool
	// memoryReservationPolicy TieredReservation: requests are kept from the kernel's reclaim
	TieredReservation bool
	// memoryThrottlingFactor: how far between request and limit a container is slowed down; 0:
	// nowhere
	ThrottlingFactor float64
	// MemoryReserved is qosReserved of memory, in percent; nil: it is not set, or the gate
	// QOSReserved is off
	MemoryReserved *int64
	GroupOOM       bool // singleProcessOOMKill=false: one OOM kill ends the container (v2 only)
	Swap           Swap // what containers may swap
}

// Swap is how containers may swap. The zero value leaves that to the runtime: the kernel does not
// count swap.
type Swap struct {
	Counted bool  // the kernel counts swap by cgroup
	Limited bool  // swapBehavior LimitedSwap
	Bytes   int64 // of swap that the node has
}

// Values is what one cgroup enforces. Nil leaves the kernel's value alone. linux/cgroup has a type
// of the same fields.
type Values struct {
	Shares    *uint64           // cpu.shares, 2..262144; v2: cpu.weight
	Quota     *int64            // µs of cpu time per period, -1 is no limit; v1: cpu.cfs_quota_us, v2: cpu.max
	Period    *uint64           // µs
	Memory    *int64            // bytes, -1 is no limit; v1: memory.limit_in_bytes, v2: memory.max
	Pids      *int64            // processes, -1 is no limit; pids.max
	Hugepages map[int64]int64   // page size in bytes to limit in bytes
	Unified   map[string]string // v2 files written as they are
}

// Node is what a container's values depend on besides the Pod.
type Node struct {
	MemoryBytes int64           // capacity, for oom_score_adj
	Allocatable v1.ResourceList // for memory.high of containers without a limit
}

const (
	defaultPeriod = 100 * time.Millisecond
	minShares     = 2
	maxShares     = 262144
	minQuota      = 1000 // µs; the kernel refuses less
)

func (o Options) period() int64 {
	if o.Period == 0 {
		return defaultPeriod.Microseconds()
	}
	return o.Period.Microseconds()
}

// Shares converts milli-cpus to cpu.shares as upstream does: 1024 per cpu, 2 for none.
func Shares(milliCPU int64) uint64 {
	return uint64(min(max(milliCPU*1024/1000, minShares), maxShares))
}

// Quota converts milli-cpus to µs of cpu time per period: 0 for none, never below the 1000 µs the
// kernel accepts.
func Quota(milliCPU, period int64) int64 {
	if milliCPU == 0 {
		return 0
	}
	return max(milliCPU*period/1000, minQuota)
}
