package noderole

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/eviction/localstorage"
	"github.com/gantry-project/gantry/internal/kubelet/eviction/manager"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumestats"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/linux/proc"
	nodeutil "github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

// diskTimeout is how long a look waits for a file system.
const diskTimeout = 500 * time.Millisecond

// memoryStall is how long tasks wait for memory, within a second or two, when the node is looked at
// at once.
const memoryStall = 100 * time.Millisecond

// nodeEviction defends the node. The kubelet and the reporter ask it before it is joined with them.
type nodeEviction struct {
	manager *manager.Manager
	watcher *manager.Watcher
}

// conditions are those of the node that are about evictions.
func (e *nodeEviction) conditions() []v1.NodeConditionType {
	if e.manager == nil {
		return nil
	}
	return e.manager.Conditions()
}

// pressure is what the node is short of.
func (e *nodeEviction) pressure() nodestatus.Pressure {
	list := e.conditions()
	return nodestatus.Pressure{Memory: slices.Contains(list, v1.NodeMemoryPressure),
		Disk: slices.Contains(list, v1.NodeDiskPressure), PID: slices.Contains(list, v1.NodePIDPressure)}
}

// run defends the node until ctx ends.
func (e *nodeEviction) run(ctx context.Context) error {
	go e.watcher.Run(ctx)
	e.manager.Run(ctx)
	<-ctx.Done()
	return nil
}

// evictionOptions are what the configuration's fields do not say about evictions.
type evictionOptions struct {
	ranking     eviction.Ranking
	defaultHard bool // nobody set evictionHard
}

// evictionConfig is how the configuration has the node evict.
func (n *Role) evictionConfig() (eviction.Config, error) {
	return kubeconfig.EvictionConfig(n.config, n.eviction.defaultHard, n.eviction.ranking)
}

// evictionMemory is what memory.available is counted from: the machine's memory without what is set
// aside as huge pages, which no cgroup counts as use and no process gets otherwise; all of it with
// the gate HugepageAwareEviction off.
func (n *Role) evictionMemory(m proc.Machine) int64 {
	left := int64(m.MemoryBytes)
	if gates, err := kubeconfig.ResolveGates(n.config.FeatureGates); err != nil || !gates.On("HugepageAwareEviction") {
		return left
	}
	for _, bytes := range m.HugePages {
		left -= bytes
	}
	return max(left, 0)
}

// attachEviction makes the manager; before anything runs. changed has the node's status written.
func (n *Role) attachEviction(e *nodeEviction, tree *cgroup.Tree, a *nodeAPI, changed func()) error {
	config, err := n.evictionConfig()
	if err != nil {
		return err
	}
	k, resources := a.kubelet, a.resources
	o := &manager.Observer{
		Cgroups: tree, Images: n.containerRuntime.Client.Images(), Full: a.collect.Full,
		Host: evictionHost{disks: volumestats.NewWithTimeout(statFS, diskTimeout),
			devices: volumestats.NewWithTimeout(proc.Device, diskTimeout)}, MemoryBytes: a.memoryBytes,
		RootDir: a.rootDir(), PodsPath: resources.PodsPath(), PodPath: resources.PodPath,
	}
	e.watcher = manager.NewWatcher(n.kernel(tree, resources.PodsPath()), o, config.Thresholds)
	d := manager.Deps{
		Config: config, Node: nodeutil.Reference(n.instance.NodeName),
		Observe: o.Observe, Measure: o.Measure, Containers: o.Containers,
		Pods: k.ActivePods, KillPod: k.KillPod, CleanedUp: k.PodCleanedUp,
		Reclaim: map[eviction.Reclaim]func(context.Context) error{
			eviction.DeadContainers: k.DeleteAllUnusedContainers, eviction.UnusedImages: k.DeleteUnusedImages},
		Events: a.events, Journal: a.sink(), Changed: changed, Notices: e.watcher.Notices(),
		Metrics: manager.Metrics{StatsAge: a.metrics.EvictionStatsAge, Fruitless: a.metrics.EvictionsFruitless,
			Observed: func(o eviction.Observations) {
				for signal, x := range o {
					a.metrics.EvictionSignal(string(signal), x.Available, x.Capacity)
				}
			}},
	}
	if *n.config.LocalStorageCapacityIsolation {
		d.OverLimits = localstorage.New(localstorage.Deps{Pods: a.pods, Measure: a.collect.Full, Events: a.events,
			Journal: a.sink(), KillPod: func(uid types.UID, end podplan.Termination) bool {
				_, ok := k.KillPod(uid, end)
				return ok
			}}).Check
	}
	e.manager = manager.New(d)
	return nil
}

// kernel is what tells that memory runs short: the machine's pressure and, on cgroup v2, the limits
// of the Pods' cgroup; with kernelMemcgNotification on cgroup v1 an amount of use.
func (n *Role) kernel(tree *cgroup.Tree, podsPath string) manager.Kernel {
	k := manager.Kernel{Others: map[string]func() (manager.ThresholdNotifier, error){
		"memory pressure": func() (manager.ThresholdNotifier, error) {
			n, err := cgroup.NotifyPressure("/proc/pressure/memory", memoryStall, time.Second)
			if errors.Is(err, unix.EINVAL) { // without CAP_SYS_RESOURCE windows are multiples of 2 s
				return cgroup.NotifyPressure("/proc/pressure/memory", memoryStall, 2*time.Second)
			}
			return n, err
		},
	}}
	if tree.Version() == 2 {
		k.Others["memory.events of the Pods"] = func() (manager.ThresholdNotifier, error) {
			return tree.NotifyEvents(podsPath)
		}
	} else if n.config.KernelMemcgNotification {
		k.Usage = func(path string, bytes uint64) (manager.ThresholdNotifier, error) {
			return tree.NotifyUsage(path, bytes)
		}
	}
	return k
}

// evictionHost reads the machine for evictions.
type evictionHost struct {
	disks   *volumestats.Measurer[usage.Disk]
	devices *volumestats.Measurer[uint64]
}

// Disk measures the file system that path is on; one that hangs is given up.
func (h evictionHost) Disk(path string) (usage.Disk, error) { return h.disks.Measure(path) }

// Device is the device that path is on; one that hangs is given up.
func (h evictionHost) Device(path string) (uint64, error) { return h.devices.Measure(path) }

// Tasks are how many there are on the machine, and how many there may be.
func (evictionHost) Tasks() (running, most int64, err error) { return proc.Tasks("/") }
