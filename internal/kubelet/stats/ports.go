package stats

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

// Runtime is the part of CRI that is asked; internalapi.RuntimeService is one.
type Runtime interface {
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
	ListContainerStats(ctx context.Context,
		filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
	ListPodSandboxStats(ctx context.Context,
		filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
}

// Images tells where images and containers' writable layers are; internalapi.ImageManagerService is
// one.
type Images interface {
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Cgroups reads cgroups by path.
type Cgroups interface {
	Measure(path string) (usage.Cgroup, error)
	Processes(path string) ([]int, error)
	List(parent string) ([]string, error)
}

// Host reads what the machine has and uses.
type Host interface {
	Node() (Sample, error)
	NetworkInterfaces(pid int) ([]usage.NetworkInterface, error) // as the process sees them; 0 is the machine
	DefaultInterface() string
	Disk(path string) (usage.Disk, error)
	Space(dir string) (usage.Space, error)
	BlockSize(path string) (uint64, error) // of a block device, in bytes
}

// Machine is what does not change while the machine is up.
type Machine struct {
	ID, SystemUUID, BootID string
	Kernel, OS             string
	CPUs, Cores, Sockets   int64
	MemoryBytes, SwapBytes uint64
}

// Sample is the machine's use at one moment.
type Sample struct {
	At                                                 time.Time
	CPUNanos                                           uint64 // all processors together, growing
	MemoryAvailable, MemoryUsed, WorkingSet, MemoryRSS uint64 // bytes
	Faults, MajorFaults                                uint64
	Swap, SwapTotal                                    uint64 // bytes in use, and in all
	Processes, MaxProcesses                            int64
	Pressure                                           usage.Pressure
	Devices                                            []usage.Device // its whole disks
}

// Paths are directories and cgroups of the node.
type Paths struct {
	Root    string               // the kubelet's directory; its file system is the node's
	Logs    string               // of Pods
	Pods    string               // cgroup of all Pods
	PodPath func(*v1.Pod) string // cgroup of one
}

// Deps are what a Collector stands on. All are required but Images and Mounted.
type Deps struct {
	NodeName string
	Started  time.Time // of the node
	List     func() []*v1.Pod
	Mounted  func(types.UID) map[string]volume.Mounted // volumes of a Pod by name; nil: no volume is measured
	// Drivers asks a CSI driver how full a volume is; says is false when the driver does not serve
	// that: the volume is left out. nil: none is asked, and file systems are.
	Drivers func(ctx context.Context, v volume.DriverVolume, path string) (d usage.Disk, says bool, err error)
	Runtime Runtime
	Images  Images // nil: the summary has no image file system
	Cgroups Cgroups
	Host    Host
	Machine Machine
	Paths   Paths
	// System names the cgroups of kubelet and runtime, as the summary calls them; nil: none is told
	// of. What cannot be found is left out.
	System func() map[string]string
	// how old sizes of volumes may be: volumeStatsAggPeriod; 0 is a minute, negative leaves volumes
	// out
	DiskAge time.Duration
}
