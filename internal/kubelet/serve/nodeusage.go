package serve

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Sample is the machine's use at one moment; internal/linux/proc reads it, app passes it on.
type Sample struct {
	At                                                              time.Time
	CPUNanoseconds                                                  uint64 // all processors together, growing
	MemoryAvailable, MemoryUsed, MemoryWorkingSet, MemoryRSS        uint64 // bytes
	Processes, MaxProcesses                                         int64
	DiskCapacity, DiskAvailable, DiskUsed, Inodes, InodesFree, Swap uint64 // of the file system the kubelet's directory is on; Swap in use
}

// window is the shortest time a rate of processor use is computed over; a client that asks more often gets the same rate again.
const window = time.Second

// MachineUsage makes a NodeUsage out of samples; Start is when the kubelet began.
func MachineUsage(start time.Time, read func() (Sample, error)) NodeUsage {
	return &machineUsage{start: start, read: read}
}

type machineUsage struct {
	start time.Time
	read  func() (Sample, error)

	mu   sync.Mutex
	last Sample
	rate *uint64 // nano cores between the last two samples
}

// Node reads a sample; the processor's rate is there from the second one on.
func (m *machineUsage) Node(context.Context) (statsapi.NodeStats, error) {
	s, err := m.read()
	if err != nil {
		return statsapi.NodeStats{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch gone := s.At.Sub(m.last.At); {
	case m.last.At.IsZero():
		m.last = s
	case gone >= window:
		rate := (s.CPUNanoseconds - m.last.CPUNanoseconds) * uint64(time.Second) / uint64(gone)
		m.rate, m.last = &rate, s
	}
	now := metav1.NewTime(s.At)
	used := s.Inodes - s.InodesFree
	return statsapi.NodeStats{
		StartTime: metav1.NewTime(m.start),
		CPU:       &statsapi.CPUStats{Time: now, UsageCoreNanoSeconds: &s.CPUNanoseconds, UsageNanoCores: m.rate},
		Memory: &statsapi.MemoryStats{
			Time: now, AvailableBytes: &s.MemoryAvailable, UsageBytes: &s.MemoryUsed, WorkingSetBytes: &s.MemoryWorkingSet, RSSBytes: &s.MemoryRSS,
		},
		Swap: &statsapi.SwapStats{Time: now, SwapUsageBytes: &s.Swap},
		Fs: &statsapi.FsStats{
			Time: now, AvailableBytes: &s.DiskAvailable, CapacityBytes: &s.DiskCapacity, UsedBytes: &s.DiskUsed,
			InodesFree: &s.InodesFree, Inodes: &s.Inodes, InodesUsed: &used,
		},
		Rlimit: &statsapi.RlimitStats{Time: now, MaxPID: &s.MaxProcesses, NumOfRunningProcesses: &s.Processes},
	}, nil
}
