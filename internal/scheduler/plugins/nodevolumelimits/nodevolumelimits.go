// Package nodevolumelimits refuses nodes that cannot attach as many volumes of a CSI driver as the
// Pod would need, and nodes without a driver whose CSIDriver has preventPodSchedulingIfMissing.
//
// The limit is what the driver says in CSINode (allocatable.count); counted are the volumes of all
// Pods on the node and of VolumeAttachments still there, each once. Volumes of in-tree plugins
// count for the driver that took them over. Without a CSINode, or a limit in it, no number is too
// high. Most nodes have room to spare: attachcounts.go has for each node how many volumes there are
// at most, and volumes are looked up only where that is near the limit. Pure.
package nodevolumelimits

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodechanges"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

const (
	// Name of the plugin.
	Name = "NodeVolumeLimits"
	// Reason is upstream's text.
	Reason = "node(s) exceed max volume count"
)

// Plugin implements the extension points of this package.
type Plugin struct {
	listers      volumelisters.Listers
	status       *framework.Status
	attachCounts attachCounts
}

// New makes the plugin; without facts it refuses no node. Facts that are a nodechanges.Source, of
// CSINodes and VolumeAttachments, spare it most lookups.
func New(listers volumelisters.Listers) *Plugin {
	pl := &Plugin{listers: listers, status: framework.NewStatus(framework.Unschedulable, Reason).WithPlugin(Name),
		attachCounts: attachCounts{listers: listers}}
	pl.attachCounts.source, _ = listers.(nodechanges.Source)
	return pl
}

var (
	_ framework.PreFilterPlugin   = (*Plugin)(nil)
	_ framework.FilterPlugin      = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
	_ framework.SignPlugin        = (*Plugin)(nil)
	_ schedule.Explainer          = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

const stateKey framework.StateKey = Name

// preFilterState is what PreFilter found out.
type preFilterState struct {
	wanted           map[string]int  // volumes of the Pod by driver with a limit somewhere, as many as there can be
	driversNearLimit map[string]bool // nodes that may have too little room; nil: any may
	requires         bool            // a driver that has to be on the node
}

// Clone shares: nothing changes it.
func (n *preFilterState) Clone() framework.StateData { return n }

// PreFilter skips Pods that have nothing to attach, or nothing that a node can lack room for.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	if pl.listers == nil || !slices.ContainsFunc(p.Spec.Volumes,
		func(v v1.Volume) bool { return volumelisters.MayNeedAttach(p, &v) }) {
		return nil, framework.NewStatus(framework.Skip)
	}
	note := &preFilterState{wanted: volumelisters.MaxVolumesByDriver(pl.listers, p)}
	note.requires = requiresAny(pl.listers, note.wanted)
	// volumes of Pods that are nominated to a node are not counted there
	if !schedule.ConsidersNominatedPods(state) && pl.attachCounts.sync(schedule.SnapshotOf(state)) {
		note.driversNearLimit = pl.attachCounts.driversNearLimit(note.wanted)
		if len(note.driversNearLimit) == 0 && !note.requires {
			return nil, framework.NewStatus(framework.Skip)
		}
	}
	maps.DeleteFunc(note.wanted, func(driver string, _ int) bool { return !pl.listers.HasLimit(driver) })
	if len(note.wanted) == 0 && !note.requires {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(stateKey, note)
	return nil, nil
}

// PreFilterExtensions has none: other Pods' volumes are read from the node.
func (*Plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// Filter refuses nodes without a driver that has to be there, and with too little left of a
// driver's limit.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	note := noteOf(state)
	if note == nil || note.requires {
		if driver := pl.missingDriver(p, n); driver != "" {
			return framework.NewStatus(framework.Unschedulable, driver+missingReason).WithPlugin(Name)
		}
	}
	if pl.hasRoom(note, n) {
		return nil
	}
	if _, over := pl.exceededLimit(p, n); over {
		return pl.status
	}
	return nil
}

// noteOf is what PreFilter found out; nil when it did not run.
func noteOf(state framework.CycleState) *preFilterState {
	v, err := state.Read(stateKey)
	if note, ok := v.(*preFilterState); err == nil && ok {
		return note
	}
	return nil
}

// hasRoom tells whether a node has room even if all that is there were of the same driver, so that
// nothing need be looked up.
func (pl *Plugin) hasRoom(note *preFilterState, n framework.NodeInfo) bool {
	if note == nil {
		return false
	}
	if note.driversNearLimit != nil && !note.driversNearLimit[n.Node().Name] {
		return true
	}
	most, known := -1, false
	csi := pl.listers.CSINode(n.Node().Name)
	for driver, more := range note.wanted {
		limit, has := volumelisters.LimitOf(csi, driver)
		if !has {
			continue
		}
		if most < 0 {
			if most, known = pl.attachCounts.maxVolumes(n); !known {
				return false
			}
		}
		if most+more > limit {
			return false
		}
	}
	return true
}

// limitExceeded is the first driver, by name, whose limit the Pod would break.
type limitExceeded struct {
	driver                      string
	additional, attached, limit int
}

func (pl *Plugin) exceededLimit(p *v1.Pod, n framework.NodeInfo) (limitExceeded, bool) {
	node := pl.listers.CSINode(n.Node().Name)
	limits := limitsOf(node)
	if len(limits) == 0 {
		return limitExceeded{}, false
	}
	wanted := volumelisters.VolumesToAttach(pl.listers, p, node)
	if len(wanted) == 0 {
		return limitExceeded{}, false
	}
	there := map[volumelisters.AttachedVolume]bool{}
	for _, other := range n.GetPods() {
		for h := range volumelisters.VolumesToAttach(pl.listers, other.GetPod(), node) {
			there[h] = true
		}
	}
	for _, a := range pl.listers.Attachments(n.Node().Name) {
		if name := a.Spec.Source.PersistentVolumeName; name != nil {
			if v, err := pl.listers.Volume(*name); err == nil {
				if h, ok := volumelisters.AttachedVolumeOf(v, node); ok {
					there[h] = true
				}
			}
		}
	}
	have, more := map[string]int{}, map[string]int{}
	for h := range there {
		have[h.Driver]++
	}
	for h := range wanted {
		if !there[h] {
			more[h.Driver]++
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(more)) {
		if limit, ok := limits[driver]; ok && have[driver]+more[driver] > limit {
			return limitExceeded{driver, more[driver], have[driver], limit}, true
		}
	}
	return limitExceeded{}, false
}

func limitsOf(n *storagev1.CSINode) map[string]int {
	if n == nil {
		return nil
	}
	out := map[string]int{}
	for _, d := range n.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			out[d.Name] = int(*d.Allocatable.Count)
		}
	}
	return out
}

// Explain gives the numbers.
func (pl *Plugin) Explain(_ context.Context, _ framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	if driver := pl.missingDriver(p, n); driver != "" {
		return schedule.Explanation{Code: reason.DriverMissing,
			Detail: fmt.Sprintf("driver %s is not registered here, and its CSIDriver says "+
				"preventPodSchedulingIfMissing", driver),
			Fix: "see why the driver's Pod does not run on the node: kubectl get csinode " + n.Node().Name + " -o yaml"}
	}
	e, over := pl.exceededLimit(p, n)
	if !over {
		return schedule.Explanation{}
	}
	return schedule.Explanation{Code: reason.TooManyVolumes,
		Detail: fmt.Sprintf("driver %s attaches at most %d volumes here, %d are there and the Pod needs %d more",
			e.driver, e.limit, e.attached, e.additional),
		Fix: "remove a Pod with volumes of that driver from the node, or add a node"}
}

// EventsToRegister wakes when a limit may have risen, a driver come or a volume gone.
func (pl *Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	on := func(r framework.EventResource, a framework.ActionType,
		hint framework.QueueingHintFn) framework.ClusterEventWithHint {
		return framework.ClusterEventWithHint{Event: framework.ClusterEvent{Resource: r, ActionType: a},
			QueueingHintFn: hint}
	}
	return []framework.ClusterEventWithHint{
		on(framework.CSINode, framework.Add|framework.Update,
			func(l logr.Logger, p *v1.Pod, before, after any) (framework.QueueingHint, error) {
				if pl.gotRequiredDriver(before, after) {
					return framework.Queue, nil
				}
				return isSchedulableAfterCSINodeChange(l, p, before, after)
			}),
		on(framework.AssignedPod, framework.Delete, isSchedulableAfterPodDeleted),
		on(framework.PersistentVolumeClaim, framework.Add, volumebinding.IsSchedulableAfterClaimChange),
		on(framework.VolumeAttachment, framework.Delete, nil),
		on(framework.Node, framework.Add, nil),
	}, nil
}

// isSchedulableAfterCSINodeChange: a new one, or one whose limit of some driver rose or went.
func isSchedulableAfterCSINodeChange(_ logr.Logger, _ *v1.Pod, before, after any) (framework.QueueingHint, error) {
	was, had := before.(*storagev1.CSINode)
	is, ok := after.(*storagev1.CSINode)
	if !ok {
		return framework.Queue, fmt.Errorf("got a %T, want a CSINode", after)
	}
	now := limitsOf(is)
	for driver, old := range limitsOf(was) {
		if limit, ok := now[driver]; !ok || limit > old {
			return framework.Queue, nil
		}
	}
	if had {
		return framework.QueueSkip, nil
	}
	return framework.Queue, nil
}

// isSchedulableAfterPodDeleted: only a Pod that had something attached leaves room.
func isSchedulableAfterPodDeleted(_ logr.Logger, _ *v1.Pod, before, _ any) (framework.QueueingHint, error) {
	gone, ok := before.(*v1.Pod)
	if !ok {
		return framework.Queue, fmt.Errorf("got a %T, want a Pod", before)
	}
	if slices.ContainsFunc(gone.Spec.Volumes, func(v v1.Volume) bool { return volumelisters.MayNeedAttach(gone, &v) }) {
		return framework.Queue, nil
	}
	return framework.QueueSkip, nil
}

// SignPod signs the Pod's volumes.
func (*Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return []framework.SignFragment{{Key: framework.VolumesSignerName, Value: framework.VolumesSigner(p)}}, nil
}
