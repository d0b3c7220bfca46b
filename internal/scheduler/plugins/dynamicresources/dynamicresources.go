package dynamicresources

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

const (
	// Name of the plugin.
	Name = "DynamicResources"

	stateKey framework.StateKey = Name

	programs = 10 // compiled expressions that are kept, as many as upstream keeps
)

// Texts of upstream.
const (
	textInUse       = "resourceclaim in use"
	textUnavailable = "resourceclaim not available on the node"
	textNotAll      = "cannot allocate all claims"
	textPools       = "invalid resource pools were encountered"
	textTimeout     = "timed out trying to allocate devices"
	textFreed       = "deallocation of ResourceClaim completed"
)

// allocatorFeatures are those of v1.37 that are on by default.
var allocatorFeatures = structured.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, ConsumableCapacity: true, DeviceBindingAndStatus: true,
}

// Hands carry out what the plugin decides.
type Hands interface {
	// Free takes a claim's devices and reservations back, so that it can be allocated anew elsewhere.
	Free(ctx context.Context, claim *resourceapi.ResourceClaim) error
	// Drop deletes a claim that was made for a Pod's extended resources. A failure is logged: the next attempt finds the claim and drops it.
	Drop(ctx context.Context, claim *resourceapi.ResourceClaim)
	// Release takes the Pod from those that a claim is reserved for. A failure is logged: the claims' controller mends it when the Pod ends.
	Release(ctx context.Context, p *v1.Pod, claim *resourceapi.ResourceClaim)
	// Carry writes allocations and reservations, and waits until the devices' binding conditions are met. Claims in the plan become what the API answered.
	Carry(ctx context.Context, p *v1.Pod, plan *Plan) error
}

// Plugin is the judge.
type Plugin struct {
	draw     framework.SharedDRAManager // nil: devices are not allocated here
	hands    Hands                      // nil: judges only
	programs *cel.Cache
	limit    time.Duration // of one node's search; 0: none
	patience time.Duration // with devices that have to become ready
	kept     kept
}

// New makes the judge. Without a manager it refuses Pods with claims; without hands it judges only. A manager that is a Stock spares it most questions.
func New(args *config.DynamicResourcesArgs, draw framework.SharedDRAManager, hands Hands) *Plugin {
	pl := &Plugin{draw: draw, hands: hands, programs: cel.NewCache(programs, cel.Features{EnableConsumableCapacity: true})}
	pl.kept.shelves = map[string]*shelf{}
	pl.kept.stock, _ = draw.(Stock)
	if args != nil && args.FilterTimeout != nil {
		pl.limit = args.FilterTimeout.Duration
	}
	if args != nil && args.BindingTimeout != nil {
		pl.patience = args.BindingTimeout.Duration
	}
	return pl
}

var (
	_ framework.PreEnqueuePlugin  = (*Plugin)(nil)
	_ framework.PreFilterPlugin   = (*Plugin)(nil)
	_ framework.FilterPlugin      = (*Plugin)(nil)
	_ framework.PostFilterPlugin  = (*Plugin)(nil)
	_ framework.ScorePlugin       = (*Plugin)(nil)
	_ framework.PreScorePlugin    = (*Plugin)(nil)
	_ framework.ReservePlugin     = (*Plugin)(nil)
	_ framework.PreBindPlugin     = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
	_ framework.SignPlugin        = (*Plugin)(nil)
	_ place.Explainer             = (*Plugin)(nil)
	_ place.Quiet                 = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

// work is what one cycle knows of the Pod's claims. Nodes are asked beside each other, each writes its own seat only.
type work struct {
	claims    []*resourceapi.ResourceClaim
	selectors []*nodeaffinity.NodeSelector // of claims that are allocated and not reachable from everywhere
	missing   []int                        // claims to allocate
	classes   []*resourceapi.DeviceClass   // that these name, in their order
	extended  *extended                    // nil: no extended resource of the Pod is served by a device class
	shelf     *shelf                       // verdicts kept from earlier Pods; nil: every node is asked, and sits in seats
	allocator structured.Allocator         // of everything there is; nil: nothing has to be allocated, or one is made for each node asked
	stock     *stock                       // for explanations, where there is an allocator
	seats     map[string]*seat             // by node
	plan      *Plan                        // since Reserve
}

// seat is what was found out about one node.
type seat struct {
	results     []resourceapi.AllocationResult // of work.missing, then of own
	own         *resourceapi.ResourceClaim     // for extended resources on this node; nil: none needed
	mapping     []v1.ContainerExtendedResourceRequest
	unavailable []int // claims that are allocated for other nodes
}

// Clone shares: a node's seat is written again with what is true for the copy, and only that of the node which is chosen in the end is read.
func (w *work) Clone() framework.StateData { return w }

func workOf(state framework.CycleState) (*work, error) {
	v, err := state.Read(stateKey)
	if err != nil {
		return nil, err
	}
	w, ok := v.(*work)
	if !ok {
		return nil, errors.New("unable to convert state into stateData")
	}
	return w, nil
}

func unresolvable(text string) *framework.Status {
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, text)
}

// Quiet tells whether the Pod has no claims, and asks for no extended resource that a device class serves.
func (pl *Plugin) Quiet(p *v1.Pod, _ *snapshot.Snapshot) bool {
	return len(p.Spec.ResourceClaims) == 0 && !pl.servesExtended(p)
}

// SignPod refuses Pods with claims: equal Pods have different ones.
func (pl *Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	if !pl.Quiet(p, nil) {
		return nil, framework.NewStatus(framework.Unschedulable, "pods with dra resource claims are not signable")
	}
	return nil, nil
}
