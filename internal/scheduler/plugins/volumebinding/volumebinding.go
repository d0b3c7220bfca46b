package volumebinding

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	podutil "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/noderesources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

const (
	// Name of the plugin.
	Name = "VolumeBinding"

	stateKey framework.StateKey = Name
	planKey  framework.StateKey = "Plan" + Name
)

// Binder assumes plans and writes them.
type Binder interface {
	// AssumePodVolumes lets the next Pods see the plan as done.
	AssumePodVolumes(p *PodVolumes) error
	// RevertAssumedPodVolumes takes that back as far as nothing was written.
	RevertAssumedPodVolumes(p *PodVolumes)
	// BindPodVolumes writes the plan and returns when all claims of it are bound, or why they will
	// not be; the context's end is one reason.
	BindPodVolumes(ctx context.Context, pod *v1.Pod, p *PodVolumes) error
}

// Plugin implements the extension points of this package.
type Plugin struct {
	listers    volumelisters.Listers
	binder     Binder
	timeout    time.Duration
	shapeScore func(requested, capacity int64) int64 // nil: nodes are not scored
}

// VolumeListers are what the plugin knows of volumes, for callers that explain its statuses; nil
// when it refuses no node.
func (p *Plugin) VolumeListers() volumelisters.Listers { return p.listers }

// New makes the plugin from defaulted arguments. Without listers it refuses no node; without a
// Binder it filters and scores only.
func New(args *config.VolumeBindingArgs, listers volumelisters.Listers, hands Binder) *Plugin {
	p := &Plugin{listers: listers, binder: hands}
	if args != nil && args.BindTimeoutSeconds != nil {
		p.timeout = time.Duration(*args.BindTimeoutSeconds) * time.Second
	}
	if args != nil && len(args.Shape) > 0 {
		p.shapeScore = noderesources.RequestedToCapacityRatio(args.Shape)
	}
	return p
}

var (
	_ framework.PreFilterPlugin           = (*Plugin)(nil)
	_ framework.FilterPlugin              = (*Plugin)(nil)
	_ framework.PreScorePlugin            = (*Plugin)(nil)
	_ framework.ScorePlugin               = (*Plugin)(nil)
	_ framework.ReservePlugin             = (*Plugin)(nil)
	_ framework.PreBindPlugin             = (*Plugin)(nil)
	_ framework.EnqueueExtensions         = (*Plugin)(nil)
	_ framework.SignPlugin                = (*Plugin)(nil)
	_ schedule.Explainer                  = (*Plugin)(nil)
	_ schedule.SkipsPreScoreWithPreFilter = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

// Skips tells whether the Pod has no claims.
func (*Plugin) Skips(p *v1.Pod, _ *snapshot.Snapshot) bool { return !podutil.HasClaims(p) }

// PreFilter looks the claims up once. Claims that must be bound first, or cannot be read, are
// beyond help by other Pods.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	if pl.listers == nil || !podutil.HasClaims(p) {
		return nil, framework.NewStatus(framework.Skip)
	}
	claims, err := volumelisters.Claims(pl.listers, p)
	if err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
	}
	w, err := classifyClaims(pl.listers, claims)
	if errors.Is(err, errImmediate) {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, ReasonImmediate)
	}
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if w.reachableFromAllNodes(pl.listers) {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(stateKey, w)
	return nil, nil
}

// PreFilterExtensions has none: other Pods do not matter.
func (*Plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// Filter refuses nodes that the volumes cannot follow to.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	w := claimsToBindOf(state)
	if w == nil {
		return nil
	}
	_, reasons, err := w.findPodVolumes(pl.listers, n.Node())
	return statusOf(reasons, err)
}

func statusOf(reasons []ConflictReason, err error) *framework.Status {
	if err != nil {
		return framework.AsStatus(err)
	}
	if len(reasons) == 0 {
		return nil
	}
	s := framework.NewStatus(framework.UnschedulableAndUnresolvable)
	for _, f := range reasons {
		s.AppendReason(f.Text)
	}
	return s.WithPlugin(Name)
}

// claimsToBindOf is nil for a Pod without claims.
func claimsToBindOf(state framework.CycleState) *claimsToBind {
	v, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	w, _ := v.(*claimsToBind)
	return w
}

type planEntry struct{ *PodVolumes }

// Clone shares: only Binder look into it.
func (n planEntry) Clone() framework.StateData { return n }

func podVolumesOf(state framework.CycleState) *PodVolumes {
	v, err := state.Read(planKey)
	if err != nil {
		return nil
	}
	n, _ := v.(planEntry)
	return n.PodVolumes
}

// Reserve plans for the chosen node and lets other Pods see it as done.
func (pl *Plugin) Reserve(_ context.Context, state framework.CycleState, p *v1.Pod, node string) *framework.Status {
	w := claimsToBindOf(state)
	if w == nil || pl.binder == nil {
		return nil
	}
	snap := schedule.SnapshotOf(state)
	if snap == nil || snap.Node(node) == nil {
		return framework.AsStatus(fmt.Errorf("node %q is not in the snapshot", node))
	}
	plan, reasons, err := w.findPodVolumes(pl.listers, snap.Node(node).Node())
	if s := statusOf(reasons, err); s != nil {
		return s
	}
	if plan.Empty() {
		return nil
	}
	if err := pl.binder.AssumePodVolumes(plan); err != nil {
		return framework.AsStatus(err)
	}
	state.Write(planKey, planEntry{plan})
	return nil
}

// Unreserve takes the plan back.
func (pl *Plugin) Unreserve(_ context.Context, state framework.CycleState, _ *v1.Pod, _ string) {
	if p := podVolumesOf(state); p != nil {
		pl.binder.RevertAssumedPodVolumes(p)
	}
}

// PreBindPreFlight skips Pods whose volumes are all bound.
func (*Plugin) PreBindPreFlight(_ context.Context, state framework.CycleState, _ *v1.Pod,
	_ string) (*framework.PreBindPreFlightResult, *framework.Status) {
	if podVolumesOf(state) == nil {
		return nil, framework.NewStatus(framework.Skip)
	}
	return &framework.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind carries the plan out and waits for the claims, at most as long as bindTimeoutSeconds.
func (pl *Plugin) PreBind(ctx context.Context, state framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	plan := podVolumesOf(state)
	if plan == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pl.timeout)
	defer cancel()
	if err := pl.binder.BindPodVolumes(ctx, p, plan); err != nil {
		return framework.AsStatus(err)
	}
	return nil
}

func size(c *v1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[v1.ResourceStorage]
}

// MaxVolumeSize is the largest volume that a capacity allows; nil when it allows none.
func MaxVolumeSize(c *storagev1.CSIStorageCapacity) *resource.Quantity {
	if c.MaximumVolumeSize != nil {
		return c.MaximumVolumeSize
	}
	return c.Capacity
}
