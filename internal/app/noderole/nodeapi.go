package noderole

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/logs/rotation"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/kubelet/server"
	"github.com/gantry-project/gantry/internal/kubelet/stats"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumestats"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/linux/proc"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

// nodeAPI is what the kubelet's port shows beside Pods: counters, measurements, logs.
type nodeAPI struct {
	n          *Role
	metrics    *metrics.Metrics
	logRotator *rotation.Manager
	collect    *stats.Collector
	events     record.EventRecorder
	system     systemCgroups
	kubelet    *kubelet.Kubelet // from attach on
	started    time.Time
	cgroups    int // version of the hierarchy
	// memory.available is counted from it: see evictionMemory
	memoryBytes int64
	resources   kubeletresource.Options // how Pods' cgroups are named and sized
}

// newAPI makes the parts that must get the node's facts from the beginning.
func (n *Role) newAPI(tree *cgroup.Tree, machine proc.Machine, resources kubeletresource.Options) (*nodeAPI, error) {
	policy, err := rotation.PolicyOf(n.config)
	if err != nil {
		return nil, err
	}
	a := &nodeAPI{n: n, metrics: n.containerRuntime.Metrics, started: time.Now(), cgroups: tree.Version(),
		memoryBytes: n.evictionMemory(machine), resources: resources}
	a.system.endpoint = n.config.ContainerRuntimeEndpoint
	engine := n.containerRuntime.Client.ProbeRuntime()
	a.logRotator = rotation.New(rotation.Deps{
		Pods: a.pods, Runtime: engine, Dir: n.config.PodLogsDir, Policy: policy,
		Links: filepath.Join(filepath.Dir(filepath.Clean(n.config.PodLogsDir)), "containers"),
	})
	cpus := proc.Topology("/")
	a.collect = stats.New(stats.Deps{
		NodeName: n.instance.NodeName, Started: a.started, List: a.pods, Mounted: a.mounted,
		Drivers: a.driverVolumeStats, Runtime: engine,
		Images: n.containerRuntime.Client.Images(), Cgroups: tree, Host: machineReader{disks: volumestats.New(statFS)},
		Machine: stats.Machine{
			ID: machine.MachineID, SystemUUID: machine.SystemUUID, BootID: machine.BootID,
			Kernel: machine.KernelVersion, OS: machine.OSImage,
			CPUs: machine.CPUs, Cores: cpus.Cores, Sockets: cpus.Sockets, MemoryBytes: machine.MemoryBytes,
			SwapBytes: machine.SwapBytes,
		},
		Paths: stats.Paths{
			Root: a.rootDir(), Logs: n.config.PodLogsDir, Pods: resources.PodsPath(),
			PodPath: resources.PodPath,
		},
		System:  a.system.get,
		DiskAge: n.config.VolumeStatsAggPeriod.Duration,
	})
	return a, nil
}

// rootDir is the kubelet's directory.
func (a *nodeAPI) rootDir() string { return a.n.instance.KubeletDir() }

// startup shows how long the node's start took, counted from the machine's.
func (a *nodeAPI) startup(attempt, registered, ready time.Time) {
	s := metrics.Startup{Kubelet: a.started, Attempt: attempt, Registered: registered, Ready: ready}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		s.Boot = time.Now().Add(-time.Duration(info.Uptime) * time.Second)
	}
	a.metrics.Started(s)
}

// sink gives the kubelet's facts to metrics and log rotation on their way to the journal.
func (a *nodeAPI) sink() journal.Sink { return a.metrics.Sink(a.logRotator.Sink(a.n.Journal)) }

func (a *nodeAPI) pods() []*v1.Pod {
	if a.kubelet == nil {
		return nil
	}
	return a.kubelet.Pods()
}

func (a *nodeAPI) mounted(uid types.UID) map[string]volume.Mounted {
	if a.kubelet == nil {
		return nil
	}
	return a.kubelet.MountedVolumes(uid)
}

func (a *nodeAPI) driverVolumeStats(ctx context.Context, v volume.DriverVolume,
	path string) (usage.Disk, bool, error) {
	if a.kubelet == nil {
		return usage.Disk{}, false, nil
	}
	return a.kubelet.DriverVolumeStats(ctx, v, path)
}

// attach gives the kubelet, once it is made, and fills in what the server shows.
func (a *nodeAPI) attach(k *kubelet.Kubelet, o *server.Options) {
	a.kubelet = k
	a.metrics.Attach(metrics.Sources{
		NodeName: a.n.instance.NodeName, Version: "v" + cli.KubeVersion.String(), Cgroups: a.cgroups, Pods: a.pods,
		MissedEvents: k.MissedEvents, Stuck: a.stuckSteps, Volumes: a.volumes, Logs: a.logs, Expiry: a.n.TLS.expiry,
		Plugins: k.PluginSockets, Claims: k.PreparedClaims,
	})
	c := a.n.config
	if c.EnableContentionProfiling && *c.EnableProfilingHandler {
		runtime.SetBlockProfileRate(1)
	}
	o.Metrics, o.Stats = a.metrics.Handler(), a
	o.Healthz = func() error { return a.metrics.PLEGHealthy(time.Now()) }
	o.Endpoints = server.Endpoints{
		Cadvisor: stats.Handler(a.collect.Full, stats.Cadvisor), Resource: stats.Handler(a.collect.CPUAndMemory,
			stats.Resource), Probes: a.metrics.ProbesHandler(),
		Checkpoints: filepath.Join(a.n.instance.KubeletDir(), "checkpoints"), LogQuery: *c.EnableSystemLogQuery,
		Idle:     c.StreamingConnectionIdleTimeout.Duration,
		Disabled: disabledEndpoints(c), Observe: a.metrics.Request,
	}
}

// serverOptions are those of the kubelet's port that the configuration says; /configz shows it.
func (n *Role) serverOptions() server.Options {
	o := n.TLS.Options
	o.NodeName, o.Port, o.Address = n.instance.NodeName, n.instance.KubeletPort, n.config.Address
	o.Configz = func() any { return n.config }
	return o
}

// disabledEndpoints is what the configuration switches off.
func disabledEndpoints(c *kubeletconfig.KubeletConfiguration) server.Disabled {
	return server.Disabled{
		Debugging: !*c.EnableDebuggingHandlers, SystemLogs: !*c.EnableSystemLogHandler,
		Profiling: !*c.EnableProfilingHandler, DebugFlags: !*c.EnableDebugFlagsHandler,
	}
}

// Summary answers /stats/summary for the kubelet's server; brief is its only_cpu_and_memory. The
// error is that of measuring. Safe for concurrent use.
func (a *nodeAPI) Summary(ctx context.Context, brief bool) (*statsapi.Summary, error) {
	take := a.collect.Full
	if brief {
		take = a.collect.CPUAndMemory
	}
	s, err := take(ctx)
	if err != nil {
		return nil, err
	}
	return s.Summary(), nil
}

// volumes are those of claims, for kubelet_volume_stats_*. Where no Pod has one, nothing is
// measured and the runtime is not asked.
func (a *nodeAPI) volumes(ctx context.Context) []metrics.Volume {
	if !slices.ContainsFunc(a.pods(), pod.HasClaims) {
		return nil
	}
	s, err := a.collect.Full(ctx)
	if err != nil {
		return nil
	}
	var out []metrics.Volume
	for _, p := range s.Pods {
		for _, v := range p.Volumes {
			if v.Claim == "" {
				continue
			}
			d := v.Disk
			if slices.ContainsFunc(out,
				func(o metrics.Volume) bool { return o.Namespace == p.Namespace && o.Claim == v.Claim }) {
				continue // Pods that share a claim tell of it once
			}
			out = append(out, metrics.Volume{
				Namespace: p.Namespace, Claim: v.Claim, Capacity: float64(d.Capacity), Available: float64(d.Available),
				Used:   float64(d.Used),
				Inodes: float64(d.Inodes), InodesFree: float64(d.InodesFree), InodesUsed: float64(v.Inodes),
			})
		}
	}
	return out
}

// stuckSteps are the steps of Pods that hang.
func (a *nodeAPI) stuckSteps() []metrics.Stuck {
	var out []metrics.Stuck
	for _, s := range a.kubelet.StuckPods() {
		out = append(out, metrics.Stuck{Namespace: s.Pod.Namespace, Pod: s.Pod.Name, UID: string(s.UID),
			Path: string(s.State), Step: s.What, Since: s.Since})
	}
	return out
}

// logs are what containers' logs take.
func (a *nodeAPI) logs(context.Context) []metrics.Log {
	var out []metrics.Log
	for _, p := range a.pods() {
		dir := filepath.Join(a.n.config.PodLogsDir, p.Namespace+"_"+p.Name+"_"+string(p.UID))
		for _, c := range p.Spec.Containers {
			if s, err := proc.Space(filepath.Join(dir, c.Name)); err == nil && s.Inodes > 0 {
				out = append(out, metrics.Log{Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID),
					Container: c.Name, Bytes: float64(s.Bytes)})
			}
		}
	}
	return out
}

// machineReader reads the machine for stats.
type machineReader struct {
	disks *volumestats.Measurer[usage.Disk] // a file server that is away keeps nobody for long
}

// Node reads the whole machine's figures from /proc, as of now.
func (machineReader) Node() (stats.Sample, error) {
	u, err := proc.Sample("/")
	if err != nil {
		return stats.Sample{}, err
	}
	return stats.Sample{
		At: u.At, CPUNanos: u.CPUNanoseconds, MemoryAvailable: u.MemoryAvailable, MemoryUsed: u.MemoryUsed,
		WorkingSet: u.MemoryWorkingSet, MemoryRSS: u.MemoryRSS,
		Faults: u.Faults, MajorFaults: u.MajorFaults, Swap: u.SwapUsed, SwapTotal: u.SwapTotal,
		Processes: int64(u.Processes), MaxProcesses: int64(u.MaxProcesses),
		Pressure: cgroup.Pressure("/proc/pressure"), Devices: proc.Disks("/"),
	}, nil
}

// NetworkInterfaces reads the interfaces of the network namespace of the process pid.
func (machineReader) NetworkInterfaces(pid int) ([]usage.NetworkInterface, error) {
	return proc.NetworkInterfaces("/", pid)
}

// DefaultInterface names the interface of the default route; empty where there is none.
func (machineReader) DefaultInterface() string { return proc.DefaultInterface("/") }

// Space adds up the bytes and inodes of the files below dir.
func (machineReader) Space(dir string) (usage.Space, error) { return proc.Space(dir) }

// BlockSize is the size in bytes of the block device at path.
func (machineReader) BlockSize(path string) (uint64, error) { return proc.BlockSize(path) }

// Disk reads the file system of path. A file server that does not answer makes it fail, not wait.
func (m machineReader) Disk(path string) (usage.Disk, error) { return m.disks.Measure(path) }

func statFS(path string) (usage.Disk, error) {
	d, err := proc.StatFS(path)
	return usage.Disk{Capacity: d.CapacityBytes, Available: d.AvailableBytes, Used: d.UsedBytes, Inodes: d.Inodes,
		InodesFree: d.InodesFree}, err
}
