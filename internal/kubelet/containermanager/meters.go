package containermanager

import "github.com/gantry-project/gantry/internal/kubelet/metrics"

// cpuMeter counts for the CPU manager.
type cpuMeter struct{ *metrics.Metrics }

func (c cpuMeter) Pinning(failed bool) { c.CPUPinning(failed) }

func (c cpuMeter) CPUs(shared, exclusive int, byNode map[int]int) {
	c.CPUPool(shared, exclusive, byNode)
}

func (c cpuMeter) Aligned(boundary string, failed bool) {
	c.AlignedResources("container", boundary, failed)
}

// memoryMeter counts for the memory manager.
type memoryMeter struct{ *metrics.Metrics }

func (c memoryMeter) Pinning(failed bool) { c.MemoryPinning(failed) }
