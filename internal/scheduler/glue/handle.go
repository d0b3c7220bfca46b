package glue

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/extend"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Deps is what all profiles share.
type Deps struct {
	Client     kubernetes.Interface
	KubeConfig *rest.Config // for plugins that make their own clients; may be nil
	Informers  informers.SharedInformerFactory
	Dynamic    dynamicinformer.DynamicSharedInformerFactory // of custom resources; may be nil
	Recorder   func(profile string) events.EventRecorderLogger
	Parallel   Parallelizer
	Waiting    *Waiting
	Nominator  framework.PodNominator
	Activator  framework.PodActivator
	World      *Current
	Extenders  extend.All
	Limit      time.Duration                 // how long a foreign plugin may take at a point that runs once per Pod; 0: for ever
	SelectorOf func(*v1.Pod) labels.Selector // may be nil
	Told       Told
	Shared
}

// Rolls is what a search for victims takes beside the snapshot. Each may be nil.
type Rolls struct {
	Pick    func(n int) int // chooses among n; asked by the scheduling goroutine alone
	Pledged place.Pledges   // which nodes the Nominator has Pods for
}

// Shared is what all plugins are told of devices and volumes' drivers, and what preemption asks.
type Shared struct {
	Rolls
	Devices framework.SharedDRAManager // nil: devices are not allocated
	CSI     framework.CSIManager
	Groups  *Groups // nil: PodGroups are not served
}

// Told is what the scheduler is told by its plugins and points. Each may be nil.
type Told struct {
	Parked     func(c Cycle, w Wait)                                   // a plugin makes a Pod wait at Permit
	Doubted    func(ctx context.Context, p *v1.Pod, differ []string)   // victims were searched a second time without memory, with these differences; nil: they need not be
	Preempting func(preemptor *v1.Pod, node string, victims []*v1.Pod) // Pods are going to be made to leave
	Preempted  func(victim *v1.Pod, why journal.Preempted)             // one of them was
	Searched   func(h Hunt)                                            // a search for victims ended
	Evicted    func(group bool, err error, took time.Duration)         // all of them were, or not, for a PodGroup or a single Pod
	Calls      Calls
	Took       func(s Span)      // a point, or a plugin at a point, was asked
	Go         func(work func()) // runs work beside the cycles and waits for it at the end; nil: work is done at once
}

// Hunt is a search for victims that ended.
type Hunt struct {
	Group   bool           // for a PodGroup
	Code    framework.Code // how it ended
	Took    time.Duration
	Victims int // Pods
	Units   int // Pods that can only leave together count once
	Broken  int // victims whose leaving a budget does not allow
}

// Calls is told of writes to the API that no scheduling cycle waits for. Each may be nil.
type Calls struct {
	Pending func(call string, n int)                         // so many more of them wait
	Ended   func(call string, err error, took time.Duration) // one was made
}

// Kinds of such writes, as upstream's labels.
const (
	CallStatus  = "pod_status_patch"
	CallBinding = "pod_binding"
)

// Wait tells that n more wait, or fewer.
func (c Calls) Wait(call string, n int) {
	if c.Pending != nil {
		c.Pending(call, n)
	}
}

// End tells that one was made.
func (c Calls) End(call string, err error, began time.Time) {
	if c.Ended != nil {
		c.Ended(call, err, time.Since(began))
	}
}

// Current is the snapshot of the cycle under way, for plugins that ask for it through the Handle.
type Current struct {
	// Standing gives a Pod as it stands on a node by now, nil for others; for PreEnqueue only, which is asked under the scheduler's lock. May be nil.
	Standing func(types.UID) *v1.Pod
	Groups   *Groups // nil: PodGroups are not served

	at atomic.Pointer[snapshot.Snapshot]
}

// Set is called when a cycle begins.
func (c *Current) Set(s *snapshot.Snapshot) { c.at.Store(s) }

// Get gives the snapshot; an empty one before the first cycle.
func (c *Current) Get() *snapshot.Snapshot {
	if s := c.at.Load(); s != nil {
		return s
	}
	return snapshot.Of(nil, nil)
}

// NodeInfos implements framework.SharedLister.
func (c *Current) NodeInfos() framework.NodeInfoLister { return c.Get() }

// StorageInfos implements framework.SharedLister.
func (c *Current) StorageInfos() framework.StorageInfoLister { return c.Get() }

// PodGroupStates implements framework.SharedLister.
func (c *Current) PodGroupStates() framework.PodGroupStateLister {
	if c.Groups != nil {
		return c.Groups.PodGroupStates()
	}
	return c.Get().PodGroupStates()
}

// PodGroups implements framework.SharedLister.
func (c *Current) PodGroups() framework.PodGroupLister {
	if c.Groups != nil {
		return c.Groups.PodGroups()
	}
	return c.Get().PodGroups()
}

// CompositePodGroupStates implements framework.SharedLister.
func (c *Current) CompositePodGroupStates() framework.CompositePodGroupStateLister {
	return c.Get().CompositePodGroupStates()
}

// CompositePodGroups implements framework.SharedLister.
func (c *Current) CompositePodGroups() framework.CompositePodGroupLister {
	return c.Get().CompositePodGroups()
}

// errNoGroups is what parts of the framework about Pod groups answer.
var errNoGroups = errors.New("pod groups are not served by this scheduler")

// frozen refuses mutations of the snapshot, which only Pod group plugins may ask for.
type frozen struct{ *Current }

// StartMutations refuses.
func (frozen) StartMutations() error { return errNoGroups }

// EndMutations refuses.
func (frozen) EndMutations() error { return errNoGroups }

// AddPod refuses.
func (frozen) AddPod(framework.PodInfo, string) error { return errNoGroups }

// RemovePod refuses.
func (frozen) RemovePod(logr.Logger, *v1.Pod, string) error { return errNoGroups }

// groups is the PodGroupManager of a scheduler that serves none.
type groups struct{ *Current }

// BuildHierarchySnapshotFromPod refuses.
func (g groups) BuildHierarchySnapshotFromPod(*v1.Pod) (framework.PodGroupManager, error) {
	return nil, errNoGroups
}

// GetRootKeyForGroup finds none.
func (g groups) GetRootKeyForGroup(framework.EntityKey) (framework.EntityKey, bool, error) {
	return framework.EntityKey{}, false, nil
}

// Handle is the framework.Handle of one profile.
type Handle struct {
	framework.PodNominator
	framework.PodActivator
	deps    Deps
	profile *Profile
}

var (
	_ framework.Handle       = (*Handle)(nil)
	_ plugins.SelectorFinder = (*Handle)(nil)
)

// SnapshotSharedLister follows the snapshot of the cycle under way.
func (h *Handle) SnapshotSharedLister() framework.SharedLister { return h.deps.World }

// MutableSnapshotSharedLister refuses to mutate.
func (h *Handle) MutableSnapshotSharedLister() framework.MutableSnapshotSharedLister {
	return frozen{h.deps.World}
}

// IterateOverWaitingPods calls back for each Pod at Permit.
func (h *Handle) IterateOverWaitingPods(callback func(framework.WaitingPod)) {
	h.deps.Waiting.Each(callback)
}

// GetWaitingPod finds a Pod at Permit; nil when it is not there.
func (h *Handle) GetWaitingPod(uid types.UID) framework.WaitingPod {
	return h.deps.Waiting.Find(uid)
}

// RejectWaitingPod turns a Pod at Permit away; false when it is not there.
func (h *Handle) RejectWaitingPod(uid types.UID) bool {
	p := h.deps.Waiting.find(uid)
	return p != nil && p.Reject("", "removed")
}

// AddPodInPreBind remembers how to cancel a Pod's PreBind.
func (h *Handle) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	h.deps.Waiting.AddPreBind(uid, cancel)
}

// GetPodInPreBind finds a Pod in PreBind.
func (h *Handle) GetPodInPreBind(uid types.UID) framework.PodInPreBind {
	return h.deps.Waiting.PreBind(uid)
}

// RemovePodInPreBind forgets it.
func (h *Handle) RemovePodInPreBind(uid types.UID) { h.deps.Waiting.RemovePreBind(uid) }

// ClientSet is the scheduler's client.
func (h *Handle) ClientSet() kubernetes.Interface { return h.deps.Client }

// KubeConfig is the configuration the client was made from; nil when the client is in-process only.
func (h *Handle) KubeConfig() *rest.Config { return h.deps.KubeConfig }

// EventRecorder records events in the profile's name.
func (h *Handle) EventRecorder() events.EventRecorderLogger {
	return h.deps.Recorder(h.profile.Name)
}

// SharedInformerFactory is the scheduler's.
func (h *Handle) SharedInformerFactory() informers.SharedInformerFactory { return h.deps.Informers }

// DynamicInformers are those of custom resources; nil without a client for them.
func (h *Handle) DynamicInformers() dynamicinformer.DynamicSharedInformerFactory {
	return h.deps.Dynamic
}

// SharedDRAManager knows claims, slices and classes; nil when the API server does not serve resource.k8s.io/v1.
func (h *Handle) SharedDRAManager() framework.SharedDRAManager { return h.deps.Devices }

// DeviceAllocation is SharedDRAManager, with its hands when it has any.
func (h *Handle) DeviceAllocation() (framework.SharedDRAManager, dynamicresources.Hands) {
	hands, _ := h.deps.Devices.(dynamicresources.Hands)
	return h.deps.Devices, hands
}

// SharedCSIManager knows CSINodes.
func (h *Handle) SharedCSIManager() framework.CSIManager { return h.deps.CSI }

// Extenders are those of the configuration.
func (h *Handle) Extenders() []framework.Extender { return h.deps.Extenders }

// ExtendersFor are those that have a say about the Pod.
func (h *Handle) ExtendersFor(p *v1.Pod) extend.All { return h.deps.Extenders.About(p) }

// Parallelizer runs work beside other work.
func (h *Handle) Parallelizer() framework.Parallelizer { return h.deps.Parallel }

// APIDispatcher is nil: writes are made where they are decided.
func (h *Handle) APIDispatcher() framework.APIDispatcher { return nil }

// APICacher is nil, as APIDispatcher.
func (h *Handle) APICacher() framework.APICacher { return nil }

// ProfileName is spec.schedulerName of the Pods served.
func (h *Handle) ProfileName() string { return h.profile.Name }

// PodGroupManager knows PodGroups and their Pods; without the gate GenericWorkload there are none.
func (h *Handle) PodGroupManager() framework.PodGroupManager {
	if h.deps.Groups != nil {
		return h.deps.Groups
	}
	return groups{h.deps.World}
}

// SelectorOf finds the selector of the Service or controller a Pod belongs to.
func (h *Handle) SelectorOf(p *v1.Pod) labels.Selector {
	if h.deps.SelectorOf == nil {
		return nil
	}
	return h.deps.SelectorOf(p)
}

// SignPod joins the fragments of all judges; nil when one of them cannot sign the Pod.
func (h *Handle) SignPod(ctx context.Context, p *v1.Pod) framework.PodSignature {
	all := map[string]any{framework.SchedulerNameSignerName: p.Spec.SchedulerName}
	for _, pl := range h.profile.judging() {
		signer, ok := pl.(framework.SignPlugin)
		if !ok {
			return nil
		}
		parts, s := signer.SignPod(ctx, p)
		if !s.IsSuccess() {
			return nil
		}
		for _, part := range parts {
			all[part.Key] = part.Value
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return raw
}

// RunPreScorePlugins runs the profile's PreScore plugins.
func (h *Handle) RunPreScorePlugins(ctx context.Context, state framework.CycleState, p *v1.Pod, nodes []framework.NodeInfo) *framework.Status {
	return place.PreScore(ctx, place.In{Pod: p, State: state, Judges: h.profile.Judges}, nodes)
}

// RunScorePlugins runs the profile's Score plugins, normalises and weighs.
func (h *Handle) RunScorePlugins(ctx context.Context, state framework.CycleState, p *v1.Pod, nodes []framework.NodeInfo) ([]framework.NodePluginScores, *framework.Status) {
	return place.Score(ctx, place.In{Pod: p, State: state, Judges: h.profile.Judges, Each: h.deps.Parallel.Each}, nodes)
}

// RunFilterPlugins asks the profile's Filter plugins about a node.
func (h *Handle) RunFilterPlugins(ctx context.Context, state framework.CycleState, p *v1.Pod, n framework.NodeInfo) *framework.Status {
	return place.Admits(ctx, place.In{Pod: p, State: state, Judges: h.profile.Judges}, n)
}

// RunFilterPluginsWithNominatedPods asks them with and without the Pods nominated to the node.
func (h *Handle) RunFilterPluginsWithNominatedPods(ctx context.Context, state framework.CycleState, p *v1.Pod, n framework.NodeInfo) *framework.Status {
	return place.Admits(ctx, place.In{Pod: p, State: state, Judges: h.profile.Judges, Nominated: h.NominatedPodsForNode}, n)
}

// In is what a ruling about a Pod is made from in the cycle under way, with the state its judges have filled.
func (h *Handle) In(p *v1.Pod, state framework.CycleState) place.In {
	in := place.In{Pod: p, World: h.deps.World.Get(), Judges: h.profile.Judges, State: state, Nominated: h.NominatedPodsForNode, Each: h.deps.Parallel.Each, Pick: h.deps.Pick}
	if h.deps.Pledged == nil {
		return in
	}
	if in.Promised = h.deps.Pledged.Nodes(); in.Promised == nil {
		in.Nominated = nil
	} else {
		in.Pledged = h.deps.Pledged
	}
	return in
}

// Told is how plugins that act tell the scheduler what they do.
func (h *Handle) Told() Told { return h.deps.Told }

// Go runs work beside the cycles.
func (h *Handle) Go(work func()) {
	if h.deps.Told.Go == nil {
		work()
		return
	}
	h.deps.Told.Go(work)
}

// Standing gives a Pod as it stands on a node by now, more recent than any snapshot; nil for others. Only PreEnqueue may ask.
func (h *Handle) Standing(uid types.UID) *v1.Pod {
	if h.deps.World.Standing == nil {
		return nil
	}
	return h.deps.World.Standing(uid)
}

// Each runs do for 0..n-1 beside each other.
func (h *Handle) Each(n int, do func(int)) { h.deps.Parallel.Each(n, do) }
