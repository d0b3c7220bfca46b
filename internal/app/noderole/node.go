package noderole

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet"
	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/plugin"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/images/credentialprovider"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
	"github.com/gantry-project/gantry/internal/kubelet/pluginmanager"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/kubelet/server"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/linux/kmsg"
	"github.com/gantry-project/gantry/internal/linux/loop"
	"github.com/gantry-project/gantry/internal/linux/mount"
	"github.com/gantry-project/gantry/internal/linux/proc"
	"github.com/gantry-project/gantry/internal/linux/systemdcgroup"
	"github.com/gantry-project/gantry/internal/options"
)

// Role is a kubelet and what it stands on.
type Role struct {
	instance         *options.Instance
	containerRuntime *ContainerRuntime
	config           *kubeletconfig.KubeletConfiguration
	client           kubernetes.Interface
	Journal          journal.Sink
	TLS              NodeTLS
	labels           map[string]string
	taints           []v1.Taint
	skipRegistration bool // --register-node=false
	external         bool // --cloud-provider=external
	Standalone       bool // without an API server
	plugins          credentialprovider.Files
	slices           *systemdcgroup.Manager // with the systemd driver
	housekeeping     time.Duration
	eviction         evictionOptions
}

// Node are the running pieces of a node, each a loop that ends with its context.
type Node struct {
	Report *nodestatus.Reporter
	Server *server.Server                // of the kubelet's port
	close  func()                        // ends the recorder of the node's events
	renew  []func(context.Context)       // of certificates; they outlive no loop
	loops  []func(context.Context) error // run side by side
}

// resources is how Pods' cgroups are named and sized.
func (n *Role) resources(tree *cgroup.Tree, swapBytes uint64) (kubeletresource.Options, error) {
	gates, err := kubeconfig.ResolveGates(n.config.FeatureGates)
	if err != nil {
		return kubeletresource.Options{}, err
	}
	o := kubeletresource.Options{
		Driver: kubeletresource.Driver(n.config.CgroupDriver), Root: n.instance.CgroupRoot(),
		CFSQuota: n.config.CPUCFSQuota == nil || *n.config.CPUCFSQuota, Unified: tree.Version() == 2,
		PodPids: podPids(n.config), Period: n.config.CPUCFSQuotaPeriod.Duration,
		MemoryQoS:         gates.On("MemoryQoS"),
		TieredReservation: n.config.MemoryReservationPolicy == kubeletconfig.TieredReservationMemoryReservationPolicy,
		Swap: kubeletresource.Swap{Limited: n.config.MemorySwap.SwapBehavior == "LimitedSwap", Bytes: int64(swapBytes),
			Counted: tree.CountsSwap()},
	}
	reserved, err := kubeconfig.QOSReserved(n.config)
	if err != nil {
		return o, err
	}
	if gates.On("QOSReserved") && len(n.config.QOSReserved) > 0 {
		o.MemoryReserved = &reserved
	}
	if f := n.config.MemoryThrottlingFactor; f != nil {
		o.ThrottlingFactor = *f
	}
	single := n.config.SingleProcessOOMKill
	o.GroupOOM = o.Unified && (single == nil || !*single)
	if !o.Unified && single != nil && !*single {
		return o, errors.New("invalid configuration: singleProcessOOMKill must not be explicitly set to false when " +
			"using cgroup v1")
	}
	return o, nil
}

// kubeletDisk makes the kubelet's directory and reads its file system.
func kubeletDisk(p *options.Instance) (proc.Disk, error) {
	if err := p.MakeKubeletDir(); err != nil {
		return proc.Disk{}, err
	}
	disk, err := proc.StatFS(p.KubeletDir())
	if err != nil {
		return disk, fmt.Errorf("reading the file system of %s: %w", p.KubeletDir(), err)
	}
	return disk, nil
}

// Build returns the kubelet with all that it depends on, which Run of the Node starts. It reads the
// machine and its cgroup tree and makes the kubelet's directory; an error says which of these
// failed.
func (n *Role) Build() (*Node, error) {
	p := n.instance
	tree, err := n.tree()
	if err != nil {
		return nil, err
	}
	machine, err := proc.Read("/")
	if err != nil {
		return nil, fmt.Errorf("reading this machine: %w", err)
	}
	info, err := n.machine(machine.MemoryBytes)
	if err != nil {
		return nil, err
	}
	disk, err := kubeletDisk(p)
	if err != nil {
		return nil, err
	}
	resources, err := n.resources(tree, machine.SwapBytes)
	if err != nil {
		return nil, err
	}
	api, err := n.newAPI(tree, machine, resources)
	if err != nil {
		return nil, err
	}
	end, evictions := &nodeShutdown{standalone: n.Standalone}, &nodeEviction{}
	var report *nodestatus.Reporter
	k, err := kubelet.New(kubelet.Options{
		Client: n.client, NodeName: p.NodeName, Config: n.config, Runtime: n.containerRuntime.Client.Runtime(),
		Images:  n.containerRuntime.Client.Images(),
		RootDir: p.KubeletDir(), LogDir: n.config.PodLogsDir,
		PodStatus: n.podStatus(), Housekeeping: n.housekeeping,
		Plugins:    n.plugins,
		Resources:  resources,
		Journal:    api.sink(),
		StaticPods: kubelet.StaticPods{Rules: podRules(), Standalone: n.Standalone},
		Dependencies: kubelet.Dependencies{HostIPs: p.NodeIPs, Cgroups: cgroupManager{tree, n.slices, api.metrics},
			Mounts: mount.Mounter{}, NodeShutdown: end.admissionRefusal, LocalNode: end.localNode,
			Disk: diskOf, Machine: &info, PluginServices: n.pluginServices(),
			ProbeRuntime: n.containerRuntime.Client.ProbeRuntime(), Metrics: api.metrics,
			NodeStatus: kubelet.NodeStatus{Pressure: evictions.conditions, Processes: tree,
				NodeStatusChanged: func() { report.Trigger() }},
			Inspector: nodeInspector{tree, n.containerRuntime.store, n.containerRuntime.registryDir()}},
	})
	if err != nil {
		return nil, err
	}
	recorder, stopEvents := nodeEvents(n.client, p.NodeName, n.config)
	if err := n.prepareHost(machine, resources, recorder); err != nil {
		stopEvents()
		return nil, err
	}
	status := n.statusOptions(machine, disk, end, recorder)
	status.Started, status.Sources.VolumesInUse, status.Sources.Extended = api.startup, k.VolumesInUse, k.Extended
	status.Sources.Pressure = evictions.pressure
	if report, err = nodestatus.New(status); err != nil {
		return nil, err
	}
	n.attachShutdown(end, k, recorder, report)
	api.events = recorder
	o := n.serverOptions()
	o.Pods, o.Runtime = k, n.containerRuntime.Client.ProbeRuntime()
	api.attach(k, &o)
	attachEndpoints(k, &o)
	if err := n.attachEviction(evictions, tree, api, report.Trigger); err != nil {
		return nil, err
	}
	server, err := server.New(o)
	if err != nil {
		return nil, err
	}
	loops := append(n.loops(k, server, api),
		func(ctx context.Context) error { end.manager.Run(ctx); <-ctx.Done(); return nil }, evictions.run)
	if !n.Standalone {
		loops = append(loops, report.Run)
	}
	return &Node{Report: report, Server: server, close: stopEvents, renew: n.TLS.Run, loops: loops}, nil
}

// prepareHost bounds the cgroups of the reservations, and records what the host cannot do.
func (n *Role) prepareHost(m proc.Machine, o kubeletresource.Options, events record.EventRecorder) error {
	if err := n.enforceReserved(cgroup.Mount, o, events); err != nil {
		return err
	}
	kept := func() (bool, error) { return mount.KeepsTmpfsFromSwap(n.instance.KubeletDir()) }
	warnOfSwap(m.SwapBytes, kept, events, n.instance.NodeName)
	return nil
}

// attachEndpoints lets the kubelet's server ask k.
func attachEndpoints(k *kubelet.Kubelet, o *server.Options) {
	o.Endpoints.PortForwarded, o.Endpoints.Sockets = k.PortForwarded, k.Sockets
	o.Endpoints.DriverCalls = func() server.DriverCalls { return driverCalls(k) }
}

// pluginServices is how plugins come to the kubelet: over sockets in its directory.
func (n *Role) pluginServices() kubelet.PluginServices {
	dir := filepath.Join(n.instance.KubeletDir(), "plugins_registry")
	return kubelet.PluginServices{FileDevices: loop.FileDevices{}, Sockets: plugin.UnixSockets{},
		PluginManager: pluginmanager.New(dir, klog.Background())}
}

// podStatus is how statuses of Pods read.
func (n *Role) podStatus() kubelet.PodStatus {
	return kubelet.PodStatus{RuntimeName: n.containerRuntime.Client.Version().GetRuntimeName(),
		V136: n.instance.APIServer.Gates.V136}
}

// userNamespace is whether the kubelet runs in a user namespace; nil with the gate off that shows
// it.
func (n *Role) userNamespace(m proc.Machine) *bool {
	gates, err := kubeconfig.ResolveGates(n.config.FeatureGates)
	if err != nil || !gates.On("KubeletInUserNamespace") {
		return nil
	}
	return &m.UserNamespace
}

// statusOptions are what the Node's object is kept from: machine and disk as they were read at the
// start, end for the shutdown that makes the node not ready, events for its Events.
func (n *Role) statusOptions(machine proc.Machine, disk proc.Disk, end *nodeShutdown,
	events record.EventRecorder) nodestatus.Options {
	p, signs := n.instance, n.containerRuntime.Client.Signals()
	return nodestatus.Options{
		Events: events,
		Client: n.client, Register: !n.skipRegistration, Journal: n.Journal, KubeletPort: int32(p.KubeletPort),
		MaxPods: n.maxPods(machine.CPUs), MaxImages: int(*n.config.NodeStatusMaxImages),
		Identity: nodestatus.Identity{
			Name: p.NodeName, Labels: n.labels, Taints: n.taints, ProviderID: n.config.ProviderID, External: n.external,
			Addresses: p.NodeAddresses(),
		},
		Machine: nodestatus.Machine{
			CPUs: machine.CPUs, MemoryBytes: machine.MemoryBytes, SwapBytes: machine.SwapBytes,
			HugePages: machine.HugePages, EphemeralBytes: disk.CapacityBytes,
			MachineID: machine.MachineID, SystemUUID: machine.SystemUUID, BootID: machine.BootID,
			KernelVersion: machine.KernelVersion, OSImage: machine.OSImage,
			RunningInUserNamespace: n.userNamespace(machine),
		},
		Sources: nodestatus.Sources{Runtime: n.containerRuntime.Client.ProbeRuntime(), Images: n.listedImages(),
			Allocatable: n.allocatable(),
			Healthy: func() error {
				return errors.Join(end.notReadyReason(), n.containerRuntime.NetworkNotReady())
			},
			RuntimeSuspect: signs.RuntimeSuspect, ImagesChanged: signs.ImagesChanged},
		Timing: nodestatus.Timing{
			StatusEvery:   n.config.NodeStatusUpdateFrequency.Duration,
			ReportEvery:   n.config.NodeStatusReportFrequency.Duration,
			LeaseDuration: time.Duration(n.config.NodeLeaseDurationSeconds) * time.Second,
		},
	}
}

// maxPods is how many Pods the node takes: maxPods, or podsPerCore for each processor when that is
// less.
func (n *Role) maxPods(cpus int64) int64 {
	if per := int64(n.config.PodsPerCore); per > 0 {
		return min(per*cpus, int64(n.config.MaxPods))
	}
	return int64(n.config.MaxPods)
}

// listedImages is whom to ask for the images of the node's status; nobody when none are to be
// listed.
func (n *Role) listedImages() internalapi.ImageManagerService {
	if *n.config.NodeStatusMaxImages == 0 {
		return nil
	}
	return n.containerRuntime.Client.Images()
}

func podPids(c *kubeletconfig.KubeletConfiguration) int64 {
	if c.PodPidsLimit == nil {
		return 0
	}
	return *c.PodPidsLimit
}

// allocatable takes what the configuration reserves off a node's capacity.
func (n *Role) allocatable() func(v1.ResourceList) v1.ResourceList {
	return func(capacity v1.ResourceList) v1.ResourceList {
		return kubeletresource.Allocatable(capacity, kubeconfig.Reserved(n.config, capacity))
	}
}

// loops are what a node runs beside its report and its shutdown.
func (n *Role) loops(k *kubelet.Kubelet, port *server.Server, api *nodeAPI) []func(context.Context) error {
	out := []func(context.Context) error{
		func(ctx context.Context) error { return healthz(ctx, n.config, port.HealthHandler()) },
		func(ctx context.Context) error { return readOnly(ctx, n.config, port.ReadOnlyHandler()) },
		api.logRotator.Run, api.system.run,
		oomWatcher{n.instance.NodeName, api.events, func() (io.ReadCloser, error) { return kmsg.Open(kmsg.Path) }}.run,
		func(ctx context.Context) error {
			n.containerRuntime.followImages(ctx, api.events, n.instance.NodeName)
			return nil
		},
		k.Run,
	}
	if *n.config.EnableServer {
		out = append(out, port.Run)
	}
	return out
}

// Run works until ctx ends or a loop fails.
func (x *Node) Run(ctx context.Context) error {
	defer x.close()
	for _, renew := range x.renew {
		go renew(ctx)
	}
	return RunAll(ctx, x.loops...)
}

// RunAll runs all until one fails or ctx ends, and then ends the others.
func RunAll(ctx context.Context, runs ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(runs))
	for _, run := range runs {
		go func() {
			err := run(ctx)
			if err != nil {
				cancel()
			}
			errs <- err
		}()
	}
	var all []error
	for range runs {
		if err := <-errs; err != nil && !errors.Is(err, context.Canceled) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// ClientFor makes a clientset that is not throttled: the API server has its own ways to defend
// itself.
func ClientFor(cfg *rest.Config, agent string) (kubernetes.Interface, error) {
	own := rest.CopyConfig(cfg)
	own.QPS, own.UserAgent = -1, agent
	return kubernetes.NewForConfig(own)
}

// ConfiguredClient is throttled only when the configuration says how much (kubeAPIQPS,
// kubeAPIBurst).
func ConfiguredClient(cfg *rest.Config, c *kubeletconfig.KubeletConfiguration) (kubernetes.Interface, error) {
	if *c.KubeAPIQPS == 0 {
		return ClientFor(cfg, "kubelet")
	}
	own := rest.CopyConfig(cfg)
	own.QPS, own.Burst, own.UserAgent = float32(*c.KubeAPIQPS), int(c.KubeAPIBurst), "kubelet"
	return kubernetes.NewForConfig(own)
}

// nodeEvents writes the node's own events, as its kubelet.
func nodeEvents(client kubernetes.Interface, node string,
	c *kubeletconfig.KubeletConfiguration) (record.EventRecorder, func()) {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(events.Limit(&typedv1.EventSinkImpl{Interface: client.CoreV1().Events(v1.NamespaceAll)}, c))
	return b.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet", Host: node}), b.Shutdown
}

// driverCalls is what a kubelet tells of calls that CSI drivers have not answered.
func driverCalls(k *kubelet.Kubelet) server.DriverCalls {
	pending, registered := k.PendingDriverCalls()
	out := server.DriverCalls{Registered: registered, Calls: []server.DriverCall{}}
	for _, c := range pending {
		out.Calls = append(out.Calls, server.DriverCall{Driver: c.Driver, Method: c.Method, Since: c.Since})
	}
	return out
}
