package podactions

import (
	"context"
	"net/http"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/images/pull"
	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volumemanager"
)

// Puller makes sure of images; pull.Puller is one.
type Puller interface {
	EnsureImageExists(ctx context.Context, r pull.Request) (ref string, err error)
}

// VolumeManager mounts and unmounts volumes of Pods; volumemanager.Manager does.
type VolumeManager interface {
	ObjectsPresent(ctx context.Context, pod *v1.Pod) bool
	MountVolumes(ctx context.Context, pod *v1.Pod) (map[string]volume.Mounted, error)
	RefreshVolumes(ctx context.Context, pod *v1.Pod) error
	UnmountVolumes(ctx context.Context, uid types.UID) error
	PrepareSubPath(ctx context.Context, s volumemanager.SubPath) (string, error)
	Objects() volume.Objects
}

// Kernel is what is asked of the kernel past the runtime.
type Kernel struct {
	Cgroups   Cgroups
	Processes Processes // nil: the runtime alone sends signals
}

// Cgroups holds the cgroup tree; app wraps linux/cgroup's.
type Cgroups interface {
	Ensure(path string, v resource.Values) error
	Remove(path string) error
}

// Processes signals processes of containers, past the runtime; linux/cgroup's Tree does. A
// container is its Pod's cgroup and its id.
type Processes interface {
	// SignalInit sends a signal to the first process, as the runtime would; ended is closed when
	// that process has ended, or when ctx has. After an error nothing was sent.
	SignalInit(ctx context.Context, pod, id string, s unix.Signal) (ended <-chan struct{}, err error)
	// KillContainer sends KILL to all processes.
	KillContainer(pod, id string) error
}

// Cluster reads what a Pod's configuration refers to in the API besides ConfigMaps and Secrets.
type Cluster interface {
	// Services of a namespace and the kubernetes Service of the default one; an error until they
	// have been read once.
	Services(namespace string) ([]*v1.Service, error)
	// RuntimeHandler is the handler of a RuntimeClass; "" for "".
	RuntimeHandler(ctx context.Context, class string) (string, error)
}

// RuntimeCache is told of records removed from the runtime; pleg.PLEG is one.
type RuntimeCache interface{ Forget(ids ...string) }

// ContainerManager knows which CPUs and memory nodes containers have; containermanager.Manager
// does.
type ContainerManager interface {
	// PreCreateContainer writes those of a container that is about to be made.
	PreCreateContainer(p *v1.Pod, container string, r *runtimeapi.LinuxContainerResources)
	// HasExclusiveCPUs tells whether a container needs no quota.
	HasExclusiveCPUs(p *v1.Pod, c *v1.Container) bool
}

// Deps is what Executor work with.
type Deps struct {
	Runtime internalapi.RuntimeService
	Images  internalapi.ImageManagerService
	Puller  Puller
	Volumes VolumeManager
	Kernel
	Cluster        Cluster
	UserNamespaces UserNamespaces
	Containers     ContainerManager // nil: containers may run anywhere
	RuntimeCache   RuntimeCache
	Devices        Devices // nil: there are none
	Claims         Claims  // nil: no driver can register
	Hooks          Hooks
	Events         *events.Recorder
	Journal        journal.Sink
	Node           Node
}

// Hooks are what lifecycle hooks need.
type Hooks struct {
	HTTP    *http.Client
	Metrics HookMetrics
}

// HookMetrics counts what happens to lifecycle hooks; metrics.Metrics does.
type HookMetrics interface {
	// HookFellBackToHTTP counts a hook for which HTTPS did not do and HTTP did.
	HookFellBackToHTTP()
	// SleepEndedEarly counts a sleep that was not slept to its end.
	SleepEndedEarly()
}

// Devices says what a container gets for its devices; the kubelet joins the managers that do.
type Devices interface {
	// RunOptions is what a container that is about to be made gets. Plugins that ask for it are
	// told that it starts.
	RunOptions(ctx context.Context, pod *v1.Pod, c *v1.Container) (devicemanager.RunOptions, error)
}

// Claims prepares the devices of resource claims; dra/manager.Manager does.
type Claims interface {
	// Prepare has drivers prepare the Pod's claims.
	Prepare(ctx context.Context, pod *v1.Pod) error
	// Unprepare has them undo it.
	Unprepare(ctx context.Context, uid types.UID) error
	// Holds tells whether something was prepared, by this kubelet or one before it.
	Holds(uid types.UID) bool
}

// Node is what containers' configuration takes from their node.
type Node struct {
	Name           string
	RootDir        string // of Pods' directories, /var/lib/kubelet upstream
	LogDir         string // of Pods' logs, /var/log/pods upstream
	ResolvConf     string // file, /etc/resolv.conf upstream; empty for none
	ClusterDomain  string
	ClusterDNS     []string
	SeccompDefault bool // RuntimeDefault where a Pod says nothing, else Unconfined
	Resources      resource.Options
	HostIPs        func() []string
	Capacity       func() v1.ResourceList // of the node
	Allocatable    func() v1.ResourceList // of the node
}
