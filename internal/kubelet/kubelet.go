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
	"github.com/gantry-project/gantry/internal/kubelet/intake"
	"github.com/gantry-project/gantry/internal/kubelet/intake/mirror"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
	"github.com/gantry-project/gantry/internal/kubelet/observe"
	"github.com/gantry-project/gantry/internal/kubelet/podexec"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus/patch"
	"github.com/gantry-project/gantry/internal/kubelet/podworker"
	"github.com/gantry-project/gantry/internal/kubelet/probe/ask"
	probeexec "github.com/gantry-project/gantry/internal/kubelet/probe/exec"
	probegrpc "github.com/gantry-project/gantry/internal/kubelet/probe/grpc"
	probehttp "github.com/gantry-project/gantry/internal/kubelet/probe/http"
	probetcp "github.com/gantry-project/gantry/internal/kubelet/probe/tcp"
	"github.com/gantry-project/gantry/internal/kubelet/userns/ledger"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/furnish"
	"github.com/gantry-project/gantry/internal/kubelet/volume/objects"
	"github.com/gantry-project/gantry/internal/kubelet/volume/podcert"
	"github.com/gantry-project/gantry/internal/reason"
)

// voice is how a kubelet tells events.
type voice struct {
	broadcaster record.EventBroadcaster // nil when Options.Recorder was given
	recorder    record.EventRecorder
	events      *events.Recorder
}

// Kubelet is one node's parts.
type Kubelet struct {
	o Options
	voice
	images   imageParts
	node     *node
	cluster  *podexec.APICluster
	watcher  *observe.Watcher
	users    *ledger.Ledger
	statuses *patch.Writer
	mirrors  *mirror.Keeper
	merge    *intake.Merge
	stray    chan struct{} // a token: the runtime has something of a Pod nobody knows

	mu      sync.Mutex
	objects *objects.Cache // from Run on
	volumes *furnish.Furnisher
	pool    *podworker.Pool
}

// New joins the parts; Run makes them work.
func New(o Options) (*Kubelet, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	k := &Kubelet{o: o, node: newNode(o), cluster: podexec.NewAPICluster(o.Client), stray: make(chan struct{}, 1)}
	ids, err := ledger.Pool(context.Background(), o.users())
	if err != nil {
		return nil, err
	}
	k.users = ledger.New(o.RootDir, ids, podexec.RunningUsers(o.Runtime))
	recorder := o.Recorder
	if recorder == nil {
		k.broadcaster, recorder = broadcaster(o.NodeName)
	}
	k.recorder, k.events = recorder, events.New(recorder)
	if k.images, err = newImageParts(o); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	k.statuses = patch.New(o.Client, o.Journal)
	k.watcher = observe.New(observe.Deps{Runtime: o.Runtime, Changed: k.changed, Began: k.began, Listed: o.Ports.Meter.Listed, Connected: o.Ports.Meter.Connected})
	to := mirror.Statuses(k.statuses)
	if o.Static.Alone {
		to = silent{}
	}
	k.mirrors = mirror.New(mirror.Deps{Client: o.Client, Statuses: to, Node: k.node.known})
	k.merge = intake.NewMerge(k.heed, o.sources()...)
	return k, nil
}

// join makes the parts that live as long as ctx.
func (k *Kubelet) join(ctx context.Context) {
	o := k.o
	watched := objects.Deps{Client: o.Client, Changed: func(uid types.UID) { k.pool.ObjectsChanged(uid) }}
	cache := stores{objects.New(ctx, watched), objects.NewBundles(ctx, watched), podcert.New(ctx, podcert.Deps{Client: o.Client, Node: k.node.known, Changed: watched.Changed, Now: time.Now})}
	k.objects = cache.Cache
	k.volumes = furnish.New(furnish.Deps{
		Root: o.RootDir, Types: volumeTypes(o.Ports.Mounts, cache, apiPorts{o.Client}, k.nodeLabels), Objects: cache, Mounts: o.Ports.Mounts,
		Recorder: k.events, Journal: o.Journal, Node: k.nodeView, Changed: func(uid types.UID) { k.pool.ObjectsChanged(uid) },
	})
	asker := ask.New(ask.Deps{
		Kinds: ask.Kinds{
			HTTP: probehttp.Asker{UserAgent: userAgent, Dial: o.Ports.Dial}, TCP: probetcp.Asker{Dial: o.Ports.Dial}, Exec: probeexec.Asker{Runtime: o.Ports.Probing}, GRPC: probegrpc.Asker{UserAgent: userAgent, Dial: o.Ports.Dial},
		},
		Recorder: k.events, Journal: o.Journal, Changed: func(uid types.UID) { k.pool.Ring(uid) }, Answered: k.answered, Sockets: k.sockets,
	})
	context.AfterFunc(ctx, asker.Close)
	hands := podexec.New(podexec.Deps{
		Runtime: o.Runtime, Images: o.Images, Volumes: k.volumes, Cgroups: &tiers{Cgroups: o.Ports.Cgroups, o: o.Resources, pods: k.active}, Cluster: k.cluster, Users: k.users, Seen: k.watcher,
		Puller: k.puller(ctx),
		HTTP:   hookClient(o.Ports.Dial), Events: k.events, Journal: o.Journal,
		Node: podexec.Node{
			Name: o.NodeName, RootDir: o.RootDir, LogDir: o.LogDir, ResolvConf: o.resolvConf(), ClusterDomain: o.Config.ClusterDomain, ClusterDNS: o.Config.ClusterDNS,
			SeccompDefault: o.Config.SeccompDefault == nil || *o.Config.SeccompDefault, Resources: o.Resources,
			HostIPs: k.node.hostIPs, Capacity: k.node.capacity, Allocatable: k.node.allocatable,
		},
	})
	k.pool = podworker.New(podworker.Deps{
		Look: k.watcher, Hands: hands, Statuses: k.mirrors, Probes: asker, Admit: k.admit, Limits: o.limits(), Resize: k.mayResize, Grants: podexec.Ledger{Root: o.RootDir},
		Node:   func() podstatus.Node { return podstatus.Node{HostIPs: k.node.hostIPs(), Runtime: o.RuntimeName} },
		Events: k.events, Journal: o.Journal, Meter: o.Ports.Meter, Worked: o.Ports.Meter.Worked, Memory: k.memory, Every: o.Config.SyncFrequency.Duration,
	})
}

const userAgent = "kube-probe/1.37"

func (k *Kubelet) admit(pod *v1.Pod, others []*v1.Pod) (victims []*v1.Pod, no *reason.Refusal) {
	if k.o.Ports.Closed != nil {
		if no := k.o.Ports.Closed(); no != nil {
			return nil, no
		}
	}
	in := admit.In{
		Pod: pod, Node: k.node.object(), Others: others, AllowedSysctls: k.o.Config.AllowedUnsafeSysctls, AppArmor: appArmor(),
		Features: nodestatus.Declared(""),
	}
	if victims, no = admit.MakeRoom(in); len(victims) > 0 {
		k.o.Ports.Meter.Preempted(strings.TrimPrefix(string(admit.Admit(in).Code), "OutOf"), len(victims))
	}
	return victims, no
}

func (k *Kubelet) mayResize(r admit.Resize, others []*v1.Pod) *reason.Refusal {
	c := k.o.Config
	return admit.MayResize(r, k.node.object(), others, admit.Policies{CPU: c.CPUManagerPolicy, Memory: c.MemoryManagerPolicy, Swap: c.MemorySwap.SwapBehavior == "LimitedSwap"})
}

func (k *Kubelet) nodeView(pod *v1.Pod) volume.NodeView {
	return volume.NodeView{Allocatable: k.node.allocatable(), HostIPs: k.node.hostIPs(), PodIPs: k.podIPs(pod)}
}

// MountedVolumes are the volumes of a Pod that are ready, by name.
func (k *Kubelet) MountedVolumes(uid types.UID) map[string]volume.Mounted {
	if k.started() == nil {
		return nil
	}
	return k.volumes.Mounted(uid)
}

func (k *Kubelet) nodeLabels() (map[string]string, bool) {
	n := k.node.object()
	if n == nil {
		return nil, false
	}
	return n.Labels, true
}

func (k *Kubelet) podIPs(pod *v1.Pod) []string {
	if pod.Spec.HostNetwork {
		return k.node.hostIPs()
	}
	if v, ok := k.pool.View(pod.UID); ok {
		if box := v.Seen.Sandbox(); box != nil {
			return box.IPs
		}
	}
	return nil
}

// Pods are the Pods of this node with the newest status there is, written or not.
func (k *Kubelet) Pods() []*v1.Pod {
	pool := k.started()
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
		if p.Namespace == namespace && p.Name == name && (found == nil || ahead(p, found)) {
			found = p
		}
	}
	return found, found != nil
}

// ahead chooses among Pods of one name: one that has containers before one that waits for the name to be free, then the younger, then by uid so that the answer is
// the same every time.
func ahead(p, q *v1.Pod) bool {
	if a, b := len(p.Status.ContainerStatuses) > 0, len(q.Status.ContainerStatuses) > 0; a != b {
		return a
	}
	if !p.CreationTimestamp.Equal(&q.CreationTimestamp) {
		return q.CreationTimestamp.Before(&p.CreationTimestamp)
	}
	return p.UID < q.UID
}

// EndPod asks for the end of a Pod on behalf of the node: eviction, preemption, shutdown. With end.Reason the Pod becomes Failed with reason and message, unless
// all its containers end with 0 (so does upstream); if end.Victim is set the condition DisruptionTarget comes with the last phase. Its containers get end.Grace from end.Asked. The channel is closed when nothing of the Pod runs any
// more; ok is false when there is no such Pod.
func (k *Kubelet) EndPod(uid types.UID, end podplan.End) (atRest <-chan struct{}, ok bool) {
	pool := k.started()
	if pool == nil {
		return nil, false
	}
	atRest = pool.AtRest(uid)
	return atRest, pool.End(uid, end)
}

// Missed counts changes in the runtime that only the audit found.
func (k *Kubelet) Missed() int64 { return k.watcher.Missed() }

// Stuck names the Pods with a step that should have come back, longest first.
func (k *Kubelet) Stuck() []podworker.StuckPod {
	pool := k.started()
	if pool == nil {
		return nil
	}
	return pool.Stuck()
}

func (k *Kubelet) started() *podworker.Pool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pool
}
