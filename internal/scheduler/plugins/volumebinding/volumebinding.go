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

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/noderesources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/storage"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

const (
	// Name of the plugin.
	Name = "VolumeBinding"

	stateKey framework.StateKey = Name
	planKey  framework.StateKey = "Plan" + Name
)

// Hands carry plans out.
type Hands interface {
	// Assume lets the next Pods see the plan as done.
	Assume(p *Plan) error
	// Forget takes that back as far as nothing was written.
	Forget(p *Plan)
	// Carry writes the plan and returns when all claims of it are bound, or why they will not be; the context's end is one reason.
	Carry(ctx context.Context, pod *v1.Pod, p *Plan) error
}

// Plugin is the judge.
type Plugin struct {
	facts   storage.Facts
	hands   Hands
	timeout time.Duration
	points  func(requested, capacity int64) int64 // nil: nodes are not scored
}

// Facts are what the judge knows of volumes, for whoever writes its verdicts down; nil when it judges nobody.
func (p *Plugin) Facts() storage.Facts { return p.facts }

// New makes the judge from defaulted arguments. Without facts it judges nobody; without hands it judges only.
func New(args *config.VolumeBindingArgs, facts storage.Facts, hands Hands) *Plugin {
	p := &Plugin{facts: facts, hands: hands}
	if args != nil && args.BindTimeoutSeconds != nil {
		p.timeout = time.Duration(*args.BindTimeoutSeconds) * time.Second
	}
	if args != nil && len(args.Shape) > 0 {
		p.points = noderesources.Ratio(args.Shape)
	}
	return p
}

var (
	_ framework.PreFilterPlugin   = (*Plugin)(nil)
	_ framework.FilterPlugin      = (*Plugin)(nil)
	_ framework.PreScorePlugin    = (*Plugin)(nil)
	_ framework.ScorePlugin       = (*Plugin)(nil)
	_ framework.ReservePlugin     = (*Plugin)(nil)
	_ framework.PreBindPlugin     = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
	_ framework.SignPlugin        = (*Plugin)(nil)
	_ place.Explainer             = (*Plugin)(nil)
	_ place.Unprepared            = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

// Quiet tells whether the Pod has no claims.
func (*Plugin) Quiet(p *v1.Pod, _ *snapshot.Snapshot) bool { return !storage.HasClaims(p) }

// PreFilter looks the claims up once. Claims that must be bound first, or cannot be read, are beyond help by other Pods.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	if pl.facts == nil || !storage.HasClaims(p) {
		return nil, framework.NewStatus(framework.Skip)
	}
	claims, err := storage.Claims(pl.facts, p)
	if err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
	}
	w, err := sortOut(pl.facts, claims)
	if errors.Is(err, errImmediate) {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, ReasonImmediate)
	}
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if w.everywhere(pl.facts) {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(stateKey, w)
	return nil, nil
}

// PreFilterExtensions has none: other Pods do not matter.
func (*Plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// Filter refuses nodes that the volumes cannot follow to.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, _ *v1.Pod, n framework.NodeInfo) *framework.Status {
	w := wishesOf(state)
	if w == nil {
		return nil
	}
	_, faults, err := w.plan(pl.facts, n.Node())
	return statusOf(faults, err)
}

func statusOf(faults []Fault, err error) *framework.Status {
	if err != nil {
		return framework.AsStatus(err)
	}
	if len(faults) == 0 {
		return nil
	}
	s := framework.NewStatus(framework.UnschedulableAndUnresolvable)
	for _, f := range faults {
		s.AppendReason(f.Text)
	}
	return s.WithPlugin(Name)
}

// wishesOf is nil for a Pod without claims.
func wishesOf(state framework.CycleState) *wishes {
	v, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	w, _ := v.(*wishes)
	return w
}

type planNote struct{ *Plan }

// Clone shares: only Hands look into it.
func (n planNote) Clone() framework.StateData { return n }

func planOf(state framework.CycleState) *Plan {
	v, err := state.Read(planKey)
	if err != nil {
		return nil
	}
	n, _ := v.(planNote)
	return n.Plan
}

// Reserve plans for the chosen node and lets other Pods see it as done.
func (pl *Plugin) Reserve(_ context.Context, state framework.CycleState, p *v1.Pod, node string) *framework.Status {
	w := wishesOf(state)
	if w == nil || pl.hands == nil {
		return nil
	}
	world := place.WorldOf(state)
	if world == nil || world.Node(node) == nil {
		return framework.AsStatus(fmt.Errorf("node %q is not in the snapshot", node))
	}
	plan, faults, err := w.plan(pl.facts, world.Node(node).Node())
	if s := statusOf(faults, err); s != nil {
		return s
	}
	if plan.Empty() {
		return nil
	}
	if err := pl.hands.Assume(plan); err != nil {
		return framework.AsStatus(err)
	}
	state.Write(planKey, planNote{plan})
	return nil
}

// Unreserve takes the plan back.
func (pl *Plugin) Unreserve(_ context.Context, state framework.CycleState, _ *v1.Pod, _ string) {
	if p := planOf(state); p != nil {
		pl.hands.Forget(p)
	}
}

// PreBindPreFlight skips Pods whose volumes are all bound.
func (*Plugin) PreBindPreFlight(_ context.Context, state framework.CycleState, _ *v1.Pod, _ string) (*framework.PreBindPreFlightResult, *framework.Status) {
	if planOf(state) == nil {
		return nil, framework.NewStatus(framework.Skip)
	}
	return &framework.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind carries the plan out and waits for the claims, at most as long as bindTimeoutSeconds.
func (pl *Plugin) PreBind(ctx context.Context, state framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	plan := planOf(state)
	if plan == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pl.timeout)
	defer cancel()
	if err := pl.hands.Carry(ctx, p, plan); err != nil {
		return framework.AsStatus(err)
	}
	return nil
}

func size(c *v1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[v1.ResourceStorage]
}

// Limit is the largest volume that a capacity allows; nil when it allows none.
func Limit(c *storagev1.CSIStorageCapacity) *resource.Quantity {
	if c.MaximumVolumeSize != nil {
		return c.MaximumVolumeSize
	}
	return c.Capacity
}
