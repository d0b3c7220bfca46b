// Package volumerestrictions refuses nodes where a volume that cannot be shared is in use: disks
// named in the Pod itself, and claims that one Pod at a time may use.
//
// A claim with access mode ReadWriteOncePod keeps other Pods off every node; a disk (GCE, EBS,
// iSCSI, RBD) only off the node where it is mounted, and not when all mount it read-only. Pure.
package volumerestrictions

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

const (
	// Name of the plugin.
	Name = "VolumeRestrictions"
	// Upstream's texts.
	ReasonDisk  = "node(s) had no available disk"
	ReasonClaim = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"

	stateKey framework.StateKey = "PreFilter" + Name
)

// Plugin implements the extension points of this package.
type Plugin struct {
	listers                 volumelisters.Listers
	diskStatus, claimStatus *framework.Status
}

// New makes the plugin; without facts only disks named in Pods are checked.
func New(listers volumelisters.Listers) *Plugin {
	return &Plugin{
		listers:     listers,
		diskStatus:  framework.NewStatus(framework.Unschedulable, ReasonDisk).WithPlugin(Name),
		claimStatus: framework.NewStatus(framework.Unschedulable, ReasonClaim).WithPlugin(Name),
	}
}

var (
	_ framework.PreFilterPlugin     = (*Plugin)(nil)
	_ framework.PreFilterExtensions = (*Plugin)(nil)
	_ framework.FilterPlugin        = (*Plugin)(nil)
	_ framework.EnqueueExtensions   = (*Plugin)(nil)
	_ framework.SignPlugin          = (*Plugin)(nil)
	_ schedule.Explainer            = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

// preFilterState are the claims that only one Pod may use, and how many uses by others there are.
type preFilterState struct {
	claims    sets.Set[string] // names
	conflicts int
}

// Clone copies the number.
func (e *preFilterState) Clone() framework.StateData {
	c := *e
	return &c
}

// Skips tells whether the Pod has neither claims nor disks.
func (*Plugin) Skips(p *v1.Pod, _ *snapshot.Snapshot) bool {
	return !slices.ContainsFunc(p.Spec.Volumes,
		func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || isDisk(&v) })
}

// PreFilter finds the claims that cannot be shared, and who uses them.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	disks := slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return isDisk(&v) })
	e := &preFilterState{claims: sets.Set[string]{}}
	for i := range p.Spec.Volumes {
		source := p.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil || pl.listers == nil {
			continue
		}
		c, err := pl.listers.Claim(p.Namespace, source.ClaimName)
		if apierrors.IsNotFound(err) {
			return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
		}
		if err != nil {
			return nil, framework.AsStatus(err)
		}
		if slices.Contains(c.Spec.AccessModes, v1.ReadWriteOncePod) {
			e.claims.Insert(c.Name)
		}
	}
	if len(e.claims) == 0 && !disks {
		return nil, framework.NewStatus(framework.Skip)
	}
	for name := range e.claims {
		key := p.Namespace + "/" + name
		if slices.ContainsFunc(nodes, func(n framework.NodeInfo) bool { return n.GetPVCRefCounts()[key] > 0 }) {
			e.conflicts++
		}
	}
	state.Write(stateKey, e)
	return nil, nil
}

// PreFilterExtensions follows Pods that are added or removed in thought.
func (pl *Plugin) PreFilterExtensions() framework.PreFilterExtensions { return pl }

// AddPod counts a Pod's uses in.
func (*Plugin) AddPod(_ context.Context, state framework.CycleState, p *v1.Pod, other framework.PodInfo,
	_ framework.NodeInfo) *framework.Status {
	updateConflicts(state, p, other.GetPod(), 1)
	return nil
}

// RemovePod counts a Pod's uses out.
func (*Plugin) RemovePod(_ context.Context, state framework.CycleState, p *v1.Pod, other framework.PodInfo,
	_ framework.NodeInfo) *framework.Status {
	updateConflicts(state, p, other.GetPod(), -1)
	return nil
}

func updateConflicts(state framework.CycleState, p, other *v1.Pod, by int) {
	e := preFilterStateOf(state)
	if e == nil || other.Namespace != p.Namespace {
		return
	}
	for i := range other.Spec.Volumes {
		if c := other.Spec.Volumes[i].PersistentVolumeClaim; c != nil && e.claims.Has(c.ClaimName) {
			e.conflicts += by
		}
	}
}

func preFilterStateOf(state framework.CycleState) *preFilterState {
	v, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	e, _ := v.(*preFilterState)
	return e
}

// Filter refuses the node of a disk, and every node while a claim is in use.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	if conflictingPod(p, n) != nil {
		return pl.diskStatus
	}
	if e := preFilterStateOf(state); e != nil && e.conflicts > 0 {
		return pl.claimStatus
	}
	return nil
}

// conflictingPod gives a Pod on the node with a disk that the Pod wants and cannot share; nil when
// there is none.
func conflictingPod(p *v1.Pod, n framework.NodeInfo) *v1.Pod {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if !isDisk(v) {
			continue
		}
		for _, other := range n.GetPods() {
			if conflicts(v, other.GetPod()) {
				return other.GetPod()
			}
		}
	}
	return nil
}

func isDisk(v *v1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil
}

// conflicts tells whether a Pod has the same disk and both may not have it: EBS never, the others
// only when one of both writes.
func conflicts(v *v1.Volume, other *v1.Pod) bool {
	return slices.ContainsFunc(other.Spec.Volumes, func(o v1.Volume) bool {
		switch {
		case v.GCEPersistentDisk != nil && o.GCEPersistentDisk != nil:
			a, b := v.GCEPersistentDisk, o.GCEPersistentDisk
			return a.PDName == b.PDName && !(a.ReadOnly && b.ReadOnly)
		case v.AWSElasticBlockStore != nil && o.AWSElasticBlockStore != nil:
			return v.AWSElasticBlockStore.VolumeID == o.AWSElasticBlockStore.VolumeID
		case v.ISCSI != nil && o.ISCSI != nil:
			return v.ISCSI.IQN == o.ISCSI.IQN && !(v.ISCSI.ReadOnly && o.ISCSI.ReadOnly)
		case v.RBD != nil && o.RBD != nil:
			a, b := v.RBD, o.RBD
			return sets.New(a.CephMonitors...).HasAny(b.CephMonitors...) && a.RBDPool == b.RBDPool &&
				a.RBDImage == b.RBDImage && !(a.ReadOnly && b.ReadOnly)
		}
		return false
	})
}

// Explain names the Pod that has the volume.
func (*Plugin) Explain(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	if other := conflictingPod(p, n); other != nil {
		return schedule.Explanation{Code: reason.VolumeTaken,
			Detail: fmt.Sprintf("Pod %s on this node has a disk that this Pod wants and that cannot be shared",
				pod.Key(other)),
			Fix: fmt.Sprintf("remove Pod %s, or mount the disk read-only in both", pod.Key(other))}
	}
	e, snap := preFilterStateOf(state), schedule.SnapshotOf(state)
	if e == nil || snap == nil {
		return schedule.Explanation{}
	}
	for _, m := range snap.All() {
		for _, other := range m.GetPods() {
			q := other.GetPod()
			for i := range q.Spec.Volumes {
				if c := q.Spec.Volumes[i].PersistentVolumeClaim; c != nil && q.Namespace == p.Namespace &&
					e.claims.Has(c.ClaimName) {
					return schedule.Explanation{Code: reason.VolumeTaken,
						Detail: fmt.Sprintf("claim %s/%s is for one Pod at a time (ReadWriteOncePod), and Pod %s on "+
							"%s has it", p.Namespace, c.ClaimName, pod.Key(q), m.Node().Name),
						Fix: fmt.Sprintf("remove Pod %s, or use a claim of its own", pod.Key(q))}
				}
			}
		}
	}
	return schedule.Explanation{}
}

// EventsToRegister wakes when a Pod with such a volume goes, a node comes, or a claim of the Pod
// comes.
func (*Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Delete},
			QueueingHintFn: isSchedulableAfterPodDeleted},
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add}},
		{Event: framework.ClusterEvent{Resource: framework.PersistentVolumeClaim,
			ActionType: framework.Add | framework.Update}, QueueingHintFn: volumebinding.IsSchedulableAfterClaimChange},
	}, nil
}

// isSchedulableAfterPodDeleted: a Pod went that had one of the Pod's disks or claims.
func isSchedulableAfterPodDeleted(_ logr.Logger, p *v1.Pod, before, _ any) (framework.QueueingHint, error) {
	gone, ok := before.(*v1.Pod)
	if !ok {
		return framework.Queue, fmt.Errorf("got a %T, want a Pod", before)
	}
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; isDisk(v) && conflicts(v, gone) {
			return framework.Queue, nil
		}
		name, _ := pod.ClaimName(p, &p.Spec.Volumes[i])
		if name != "" && volumelisters.Uses(gone,
			&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name}}) {
			return framework.Queue, nil
		}
	}
	return framework.QueueSkip, nil
}

// SignPod signs the Pod's volumes.
func (*Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return []framework.SignFragment{{Key: framework.VolumesSignerName, Value: framework.VolumesSigner(p)}}, nil
}
