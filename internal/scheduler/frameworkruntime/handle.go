package frameworkruntime

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/gantry-project/gantry/internal/scheduler/extender"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// Deps is what all profiles share.
type Deps struct {
	Client       kubernetes.Interface
	KubeConfig   *rest.Config // for plugins that make their own clients; may be nil
	Informers    informers.SharedInformerFactory
	Dynamic      dynamicinformer.DynamicSharedInformerFactory // of custom resources; may be nil
	Recorder     func(profile string) events.EventRecorderLogger
	Parallelizer Parallelizer
	WaitingPods  *WaitingPods
	Nominator    framework.PodNominator
	Activator    framework.PodActivator
	Snapshot     *CurrentSnapshot
	Extenders    extender.Extenders
	// how long a plugin that is not built in may take at an extension point that runs once per Pod;
	// 0: for ever
	PluginTimeout time.Duration
	SelectorOf    func(*v1.Pod) labels.Selector // may be nil
	Hooks         Hooks
	SharedState
}

// PreemptionInputs is what a search for victims needs beside the snapshot. Each may be nil.
type PreemptionInputs struct {
	PickStart   func(n int) int      // chooses among n; asked by the scheduling goroutine alone
	Nominations schedule.Nominations // which nodes the Nominator has Pods for
}

// SharedState is what plugins of all profiles see of devices, of volume drivers and of PodGroups,
// and what a search for victims needs.
type SharedState struct {
	PreemptionInputs
	DRAManager framework.SharedDRAManager // nil: devices are not allocated
	CSIManager framework.CSIManager
	PodGroups  *PodGroups // nil: PodGroups are not served
}

// Hooks are called by plugins and extension points, from any goroutine. Each may be nil.
type Hooks struct {
	WaitingOnPermit func(c PodCycle, w PermitWait) // a plugin makes a Pod wait at Permit
	// called when victims were searched a second time without cached results, with the differences;
	// nil: no second search
	ShadowCheckFailed  func(ctx context.Context, p *v1.Pod, differ []string)
	Preempting         func(preemptor *v1.Pod, node string, victims []*v1.Pod) // before the victims are evicted
	Preempted          func(victim *v1.Pod, why journal.Preempted)             // a victim was evicted
	PreemptionSearched func(h PreemptionAttempt)                               // a search for victims ended
	// the victims of a preemption for a PodGroup or a single Pod were all evicted, or could not be
	Evicted      func(group bool, err error, took time.Duration)
	APICalls     APICallHooks
	ObservePoint func(s PointDuration) // an extension point, or a plugin at one, ran
	// runs work in a goroutine that is waited for when the scheduler ends; nil: work runs at once
	Go func(work func())
}

// PreemptionAttempt is a search for victims that ended.
type PreemptionAttempt struct {
	PodGroup      bool           // for a PodGroup
	Code          framework.Code // how it ended
	Took          time.Duration
	Victims       int // Pods
	Units         int // Pods that can only leave together count once
	PDBViolations int // victims whose leaving a budget does not allow
}

// APICallHooks are called for writes to the API server that no scheduling cycle waits for. Each may
// be nil.
type APICallHooks struct {
	Pending  func(call string, n int)                         // n more wait, or fewer
	Executed func(call string, err error, took time.Duration) // a write was made
}

// Kinds of such writes, as upstream's labels.
const (
	CallStatusPatch = "pod_status_patch"
	CallBinding     = "pod_binding"
)

// AddPending calls Pending.
func (c APICallHooks) AddPending(call string, n int) {
	if c.Pending != nil {
		c.Pending(call, n)
	}
}

// ObserveExecuted calls Executed for a write that began then.
func (c APICallHooks) ObserveExecuted(call string, err error, began time.Time) {
	if c.Executed != nil {
		c.Executed(call, err, time.Since(began))
	}
}

// errNoPodGroups is the error of everything about PodGroups without the gate GenericWorkload.
var errNoPodGroups = errors.New("pod groups are not served by this scheduler")

// immutableSnapshot refuses to change the snapshot, which only PodGroup plugins may ask for.
type immutableSnapshot struct{ *CurrentSnapshot }

// StartMutations returns errNoPodGroups: nothing changes the snapshot of a cycle.
func (immutableSnapshot) StartMutations() error { return errNoPodGroups }

// EndMutations returns errNoPodGroups.
func (immutableSnapshot) EndMutations() error { return errNoPodGroups }

// AddPod returns errNoPodGroups and leaves the snapshot as it is.
func (immutableSnapshot) AddPod(framework.PodInfo, string) error { return errNoPodGroups }

// RemovePod returns errNoPodGroups and leaves the snapshot as it is.
func (immutableSnapshot) RemovePod(logr.Logger, *v1.Pod, string) error { return errNoPodGroups }

// noPodGroups is the PodGroupManager of a scheduler that serves none.
type noPodGroups struct{ *CurrentSnapshot }

// BuildHierarchySnapshotFromPod returns errNoPodGroups for every Pod.
func (g noPodGroups) BuildHierarchySnapshotFromPod(*v1.Pod) (framework.PodGroupManager, error) {
	return nil, errNoPodGroups
}

// GetRootKeyForGroup says that no group has a root; the error is always nil.
func (g noPodGroups) GetRootKeyForGroup(framework.EntityKey) (framework.EntityKey, bool, error) {
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
func (h *Handle) SnapshotSharedLister() framework.SharedLister { return h.deps.Snapshot }

// MutableSnapshotSharedLister refuses to mutate.
func (h *Handle) MutableSnapshotSharedLister() framework.MutableSnapshotSharedLister {
	return immutableSnapshot{h.deps.Snapshot}
}

// IterateOverWaitingPods calls back for each Pod at Permit.
func (h *Handle) IterateOverWaitingPods(callback func(framework.WaitingPod)) {
	h.deps.WaitingPods.Iterate(callback)
}

// GetWaitingPod finds a Pod at Permit; nil when it is not there.
func (h *Handle) GetWaitingPod(uid types.UID) framework.WaitingPod {
	return h.deps.WaitingPods.Get(uid)
}

// RejectWaitingPod rejects a Pod at Permit; false when it is not there.
func (h *Handle) RejectWaitingPod(uid types.UID) bool {
	p := h.deps.WaitingPods.get(uid)
	return p != nil && p.Reject("", "removed")
}

// AddPodInPreBind keeps how to cancel a Pod's PreBind.
func (h *Handle) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	h.deps.WaitingPods.AddPodInPreBind(uid, cancel)
}

// GetPodInPreBind finds a Pod in PreBind.
func (h *Handle) GetPodInPreBind(uid types.UID) framework.PodInPreBind {
	return h.deps.WaitingPods.GetPodInPreBind(uid)
}

// RemovePodInPreBind forgets it.
func (h *Handle) RemovePodInPreBind(uid types.UID) { h.deps.WaitingPods.RemovePodInPreBind(uid) }

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

// SharedDRAManager gives claims, slices and classes; nil when the API server does not serve
// resource.k8s.io/v1.
func (h *Handle) SharedDRAManager() framework.SharedDRAManager { return h.deps.DRAManager }

// DeviceAllocation is SharedDRAManager, with its writing side when it has one.
func (h *Handle) DeviceAllocation() (framework.SharedDRAManager, dynamicresources.ClaimWriter) {
	claimWriter, _ := h.deps.DRAManager.(dynamicresources.ClaimWriter)
	return h.deps.DRAManager, claimWriter
}

// SharedCSIManager gives CSINodes.
func (h *Handle) SharedCSIManager() framework.CSIManager { return h.deps.CSIManager }

// Extenders are those of the configuration.
func (h *Handle) Extenders() []framework.Extender { return h.deps.Extenders }

// ExtendersFor are those that are interested in the Pod.
func (h *Handle) ExtendersFor(p *v1.Pod) extender.Extenders { return h.deps.Extenders.Interested(p) }

// Parallelizer runs work in parallel.
func (h *Handle) Parallelizer() framework.Parallelizer { return h.deps.Parallelizer }

// APIDispatcher is nil: who decides a write makes it.
func (h *Handle) APIDispatcher() framework.APIDispatcher { return nil }

// APICacher is nil, as APIDispatcher.
func (h *Handle) APICacher() framework.APICacher { return nil }

// ProfileName is spec.schedulerName of the Pods served.
func (h *Handle) ProfileName() string { return h.profile.Name }

// PodGroupManager gives PodGroups and their Pods; none without the gate GenericWorkload.
func (h *Handle) PodGroupManager() framework.PodGroupManager {
	if h.deps.PodGroups != nil {
		return h.deps.PodGroups
	}
	return noPodGroups{h.deps.Snapshot}
}

// SelectorOf is the joined selector of the Services and the controller of a Pod.
func (h *Handle) SelectorOf(p *v1.Pod) labels.Selector {
	if h.deps.SelectorOf == nil {
		return nil
	}
	return h.deps.SelectorOf(p)
}

// SignPod joins the signature fragments of all plugins; nil when one of them cannot sign the Pod.
func (h *Handle) SignPod(ctx context.Context, p *v1.Pod) framework.PodSignature {
	all := map[string]any{framework.SchedulerNameSignerName: p.Spec.SchedulerName}
	for _, pl := range h.profile.filterAndScorePlugins() {
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

// RunPreScorePlugins is for plugins that score themselves: it runs the profile's PreScore plugins
// for the feasible nodes. Plugins that answer Skip are noted in state and do not score; the first
// failure comes back, success is nil. state is the caller's own.
func (h *Handle) RunPreScorePlugins(ctx context.Context, state framework.CycleState, p *v1.Pod,
	nodes []framework.NodeInfo) *framework.Status {
	return schedule.RunPreScorePlugins(ctx, schedule.Input{Pod: p, State: state, Plugins: h.profile.Plugins}, nodes)
}

// RunScorePlugins runs the profile's Score plugins, nodes in parallel, then normalizes and weighs.
// The scores are one entry per node in the order of nodes, with each plugin's part; they are nil
// when the status, which names the plugin, is a failure.
func (h *Handle) RunScorePlugins(ctx context.Context, state framework.CycleState, p *v1.Pod,
	nodes []framework.NodeInfo) ([]framework.NodePluginScores, *framework.Status) {
	return schedule.RunScorePlugins(ctx, schedule.Input{Pod: p, State: state, Plugins: h.profile.Plugins,
		Parallel: h.deps.Parallelizer.ForEach}, nodes)
}

// RunFilterPlugins runs the profile's Filter plugins for one node, without nominated Pods: nil
// where the Pod fits, else the status of the first plugin that refuses or fails. state must have
// gone through PreFilter; calls for several nodes at once are safe.
func (h *Handle) RunFilterPlugins(ctx context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	return schedule.PassesFilters(ctx, schedule.Input{Pod: p, State: state, Plugins: h.profile.Plugins}, n)
}

// RunFilterPluginsWithNominatedPods runs them with and without the Pods nominated to the node,
// whose room it so counts (schedule.AddNominatedPods).
func (h *Handle) RunFilterPluginsWithNominatedPods(ctx context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	return schedule.PassesFilters(ctx, schedule.Input{Pod: p, State: state, Plugins: h.profile.Plugins,
		NominatedPodsForNode: h.NominatedPodsForNode}, n)
}
