package kubelet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
	"github.com/gantry-project/gantry/internal/kubelet/pleg"
	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podsource"
	"github.com/gantry-project/gantry/internal/kubelet/podsource/mirror"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus/statusmanager"
	"github.com/gantry-project/gantry/internal/kubelet/podworker"
	probeexec "github.com/gantry-project/gantry/internal/kubelet/probe/exec"
	probegrpc "github.com/gantry-project/gantry/internal/kubelet/probe/grpc"
	probehttp "github.com/gantry-project/gantry/internal/kubelet/probe/http"
	probetcp "github.com/gantry-project/gantry/internal/kubelet/probe/tcp"
	"github.com/gantry-project/gantry/internal/kubelet/prober"
	"github.com/gantry-project/gantry/internal/kubelet/userns/allocations"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/claim"
	"github.com/gantry-project/gantry/internal/kubelet/volume/objectcache"
	"github.com/gantry-project/gantry/internal/kubelet/volume/podcertificate"
	"github.com/gantry-project/gantry/internal/kubelet/volumemanager"
	"github.com/gantry-project/gantry/internal/reason"
)

// eventRecording is how a kubelet tells events.
type eventRecording struct {
	broadcaster record.EventBroadcaster // nil when Options.Recorder was given
	events      *events.Recorder
}

// Kubelet is one node's parts.
type Kubelet struct {
	opts Options
	eventRecording
	resourceManagers
	images        imageManagers
	node          *node
	cluster       *podactions.APICluster
	pleg          *pleg.PLEG
	statusManager *statusmanager.Manager
	mirrorPods    *mirror.Manager
	podConfig     *podsource.PodConfig
	orphanSeen    chan struct{} // a token: the runtime has something of a Pod nobody knows

	mu            sync.Mutex
	csi           *csiVolumes // from Run on
	volumeManager *volumemanager.Manager
	podWorkers    *podworker.Pool
}

// New joins the parts; Run makes them work.
func New(o Options) (*Kubelet, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	k := &Kubelet{opts: o, node: newNode(o), cluster: podactions.NewAPICluster(o.Client),
		orphanSeen: make(chan struct{}, 1)}
	ids, err := allocations.Pool(context.Background(), o.userNamespaceConfig())
	if err != nil {
		return nil, err
	}
	k.userNamespaces = allocations.New(o.RootDir, ids, podactions.SandboxUserNamespace(o.Runtime))
	if k.devices, err = k.newDevices(); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	if k.containers, err = o.containerManager(k.devices.HintProvider()); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	recorder := o.Recorder
	if recorder == nil {
		k.broadcaster, recorder = broadcaster(o.NodeName)
	}
	k.events = events.New(recorder)
	if k.images, err = newImageManagers(o); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	k.statusManager = statusmanager.New(o.Client, o.Journal)
	k.pleg = pleg.New(pleg.Deps{Runtime: o.Runtime, Changed: k.podChanged, Started: k.podStarted,
		Relisted: o.Dependencies.Metrics.PLEGRelisted, Connected: o.Dependencies.Metrics.EventStreamConnected})
	to := mirror.StatusManager(k.statusManager)
	if o.StaticPods.Standalone {
		to = discardStatuses{}
	}
	k.mirrorPods = mirror.New(mirror.Deps{Client: o.Client, Statuses: to, Node: k.node.get})
	k.podConfig = podsource.NewPodConfig(k.handlePodUpdate, o.sources()...)
	return k, nil
}

// initializeModules makes the parts that live as long as ctx.
func (k *Kubelet) initializeModules(ctx context.Context) {
	o := k.opts
	watched := objectcache.Deps{Client: o.Client, Changed: func(uid types.UID) { k.podWorkers.ObjectsChanged(uid) }}
	cache := objectCaches{objectcache.New(ctx, watched), objectcache.NewBundles(ctx, watched),
		podcertificate.New(ctx, podcertificate.Deps{Client: o.Client, Node: k.node.get, Changed: watched.Changed,
			Now: time.Now})}
	k.csi = k.newCSIVolumes(ctx)
	k.volumeManager = volumemanager.New(volumemanager.Deps{
		Root: o.RootDir,
		Plugins: append(volumePlugins(o.Dependencies.Mounts, cache, volumeAPI{o.Client}, o.PodStatus.V136),
			volume.PluginRow{Plugin: k.csi.plugin, Inline: true, PersistentVolume: true, MountOptions: true,
				FSGroup: true}),
		Specs:   claim.Resolver{Claims: volumeAPI{o.Client}, Labels: k.nodeLabels},
		Objects: cache, Mounts: o.Dependencies.Mounts, Devices: o.Dependencies.FileDevices,
		Recorder: k.events, Journal: o.Journal, Node: k.nodeView,
		Changed: func(uid types.UID) { k.podWorkers.ObjectsChanged(uid) },
		Reject: func(uid types.UID, reason, message string) {
			k.podWorkers.KillPod(uid, podplan.Termination{Cause: "rejected", Reason: reason, Message: message,
				RequestedAt: time.Now()})
		},
		Operated: func(done volume.Operation) { o.Dependencies.Metrics.VolumeOperationDone(volumeOperation(done)) },
	})
	k.restoreVolumesInUse(ctx)
	k.csi.health = k.newVolumeHealth()
	probeManager := prober.New(prober.Deps{
		Probers: prober.Probers{
			HTTP: probehttp.Prober{UserAgent: userAgent, Dial: o.Dependencies.Dial},
			TCP:  probetcp.Prober{Dial: o.Dependencies.Dial},
			Exec: probeexec.Prober{Runtime: o.Dependencies.ProbeRuntime},
			GRPC: probegrpc.Prober{UserAgent: userAgent, Dial: o.Dependencies.Dial},
		},
		Recorder: k.events, Journal: o.Journal, Changed: func(uid types.UID) { k.podWorkers.Wake(uid) },
		Probed: k.recordProbe, Sockets: k.listeningSockets, V136: o.PodStatus.V136,
	})
	context.AfterFunc(ctx, probeManager.Close)
	executor := podactions.New(podactions.Deps{
		Runtime: countedRuntime{o.Runtime, o.Dependencies.Metrics}, Images: o.Images, Volumes: k.volumeManager,
		Kernel: podactions.Kernel{Cgroups: &qosContainerManager{Cgroups: o.Dependencies.Cgroups, opts: o.Resources,
			pods: k.activePods, allocatable: k.node.allocatable, protected: o.Dependencies.Metrics.ProtectedMemory},
			Processes: o.Dependencies.Processes},
		Cluster: k.cluster, UserNamespaces: k.userNamespaces, RuntimeCache: k.pleg,
		Containers: k.containers, Puller: k.newPuller(ctx), Devices: k.devices, Claims: k.devices.Claims(),
		Hooks:  podactions.Hooks{HTTP: hookClient(o.Dependencies.Dial), Metrics: o.Dependencies.Metrics},
		Events: k.events, Journal: o.Journal,
		Node: podactions.Node{
			Name: o.NodeName, RootDir: o.RootDir, LogDir: o.LogDir, ResolvConf: o.resolvConf(),
			ClusterDomain: o.Config.ClusterDomain, ClusterDNS: o.Config.ClusterDNS,
			SeccompDefault: o.Config.SeccompDefault == nil || *o.Config.SeccompDefault, Resources: o.Resources,
			HostIPs: k.node.hostIPs, Capacity: k.node.capacity, Allocatable: k.node.allocatable,
		},
	})
	k.podWorkers = podworker.New(podworker.Deps{
		Runtime: k.pleg, Actions: executor, Statuses: k.mirrorPods, Probes: probeManager, Admit: k.admit,
		Resources: podResources{k},
		Limits:    o.backOffLimits(), Resize: k.canResizePod,
		Allocations: podactions.AllocationStore{Root: o.RootDir},
		Node: func() podstatus.Node {
			return podstatus.Node{HostIPs: k.node.hostIPs(), Runtime: o.PodStatus.RuntimeName, V136: o.PodStatus.V136}
		},
		Events: k.events, Journal: o.Journal, Metrics: o.Dependencies.Metrics,
		Readings: podworker.Readings{Memory: k.memoryStats, VolumeHealth: k.volumeHealth,
			RecursiveReadOnly: k.recursiveReadOnly},
		ResyncInterval: o.Config.SyncFrequency.Duration,
	})
}

const userAgent = "kube-probe/1.37"

func (k *Kubelet) admit(pod *v1.Pod, others []*v1.Pod) (victims []*v1.Pod, refusal *reason.Refusal) {
	if k.opts.Dependencies.NodeShutdown != nil {
		if refusal := k.opts.Dependencies.NodeShutdown(); refusal != nil {
			return nil, refusal
		}
	}
	in := admit.In{
		Pod: pod, Node: k.node.getOrInitial(), OtherPods: others,
		AllowedSysctls: k.opts.Config.AllowedUnsafeSysctls,
		AppArmor:       appArmor(),
		Features:       nodestatus.Declared(""),
	}
	if pressure := k.opts.Dependencies.Pressure; pressure != nil {
		in.Pressure = pressure()
	}
	if refusal := admit.BeforeAllocation(in); refusal != nil {
		return nil, refusal
	}
	k.removeStaleAllocations(pod.UID)
	if refusal := k.reserveResources(pod); refusal != nil {
		return nil, refusal
	}
	in.Node = k.devices.WithAllocated(in.Node, pod)
	if victims, refusal = admit.PodsToPreempt(in); refusal != nil {
		k.containers.Release(pod)
	}
	if len(victims) > 0 {
		k.opts.Dependencies.Metrics.Preempted(strings.TrimPrefix(string(admit.Admit(in).Code), "OutOf"), len(victims))
	}
	return victims, refusal
}

// canResizePod checks an in-place resize against the node as it is and the policies of its CPU and
// memory manager; admit.CanResize decides.
func (k *Kubelet) canResizePod(r admit.Resize, others []*v1.Pod) *reason.Refusal {
	c := k.opts.Config
	return admit.CanResize(r, k.node.getOrInitial(), others,
		admit.Policies{CPU: c.CPUManagerPolicy, Memory: c.MemoryManagerPolicy,
			Swap: c.MemorySwap.SwapBehavior == "LimitedSwap"})
}

func (k *Kubelet) nodeView(pod *v1.Pod) volume.NodeView {
	return volume.NodeView{Allocatable: k.node.allocatable(), HostIPs: k.node.hostIPs(), PodIPs: k.podIPs(pod)}
}

// MountedVolumes are the volumes of a Pod that are ready, by name.
func (k *Kubelet) MountedVolumes(uid types.UID) map[string]volume.Mounted {
	if k.workers() == nil {
		return nil
	}
	return k.volumeManager.MountedVolumes(uid)
}

func (k *Kubelet) nodeLabels() (map[string]string, bool) {
	n := k.node.getOrInitial()
	if n == nil {
		return nil, false
	}
	return n.Labels, true
}

func (k *Kubelet) podIPs(pod *v1.Pod) []string {
	if pod.Spec.HostNetwork {
		return k.node.hostIPs()
	}
	if v, ok := k.podWorkers.View(pod.UID); ok {
		if sandbox := v.Observed.Sandbox(); sandbox != nil {
			return sandbox.IPs
		}
	}
	return nil
}

// Pods are the Pods of this node with the newest status there is, written or not.
func (k *Kubelet) Pods() []*v1.Pod {
	pool := k.workers()
	if pool == nil {
		return nil
	}
	views := pool.Views()
	out := make([]*v1.Pod, 0, len(views))
	for _, v := range views {
		out = append(out, v.Pod)
	}
	return out
}

// PodByName returns the Pod of that name that holds it on this node.
func (k *Kubelet) PodByName(namespace, name string) (*v1.Pod, bool) {
	var found *v1.Pod
	for _, p := range k.Pods() {
		if p.Namespace == namespace && p.Name == name && (found == nil || preferPod(p, found)) {
			found = p
		}
	}
	return found, found != nil
}

// preferPod chooses among Pods of one name: one that has containers before one that waits for the
// name to be free, then the younger, then by uid so that the answer is the same every time.
func preferPod(p, q *v1.Pod) bool {
	if a, b := len(p.Status.ContainerStatuses) > 0, len(q.Status.ContainerStatuses) > 0; a != b {
		return a
	}
	if !p.CreationTimestamp.Equal(&q.CreationTimestamp) {
		return q.CreationTimestamp.Before(&p.CreationTimestamp)
	}
	return p.UID < q.UID
}

// KillPod asks for the end of a Pod on behalf of the node: eviction, preemption, shutdown. With
// end.Reason the Pod becomes Failed with reason and message, unless all its containers end with 0
// (so does upstream); if end.Victim is set the condition DisruptionTarget comes with the last
// phase. Its containers get end.Grace from end.Asked. The channel is closed when nothing of the Pod
// runs any more; ok is false when there is no such Pod.
func (k *Kubelet) KillPod(uid types.UID, end podplan.Termination) (terminated <-chan struct{}, ok bool) {
	pool := k.workers()
	if pool == nil {
		return nil, false
	}
	terminated = pool.TerminatedCh(uid)
	return terminated, pool.KillPod(uid, end)
}

// MissedEvents counts changes in the runtime that only the audit found.
func (k *Kubelet) MissedEvents() int64 { return k.pleg.MissedEvents() }

// StuckPods names the Pods with a step that should have come back, longest first.
func (k *Kubelet) StuckPods() []podworker.StuckPod {
	pool := k.workers()
	if pool == nil {
		return nil
	}
	return pool.StuckPods()
}

func (k *Kubelet) workers() *podworker.Pool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.podWorkers
}
