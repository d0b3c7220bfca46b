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

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

const (
	// Name of the plugin.
	Name = "DynamicResources"

	stateKey framework.StateKey = Name

	celCacheSize = 10 // compiled expressions that are cached, as many as upstream
)

// Texts of upstream.
const (
	textUnavailable = "resourceclaim not available on the node"
	textNotAll      = "cannot allocate all claims"
	textPools       = "invalid resource pools were encountered"
	textTimeout     = "timed out trying to allocate devices"
	textFreed       = "deallocation of ResourceClaim completed"
)

// allocatorFeatures are those of v1.37 that are on by default.
var allocatorFeatures = structured.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, ConsumableCapacity: true,
	DeviceBindingAndStatus: true,
}

// ClaimWriter writes what the plugin decides.
type ClaimWriter interface {
	// Deallocate takes a claim's devices and reservations back, so that it can be allocated anew
	// elsewhere.
	Deallocate(ctx context.Context, claim *resourceapi.ResourceClaim) error
	// DeleteClaim deletes a claim that was made for a Pod's extended resources. A failure is
	// logged: the next attempt finds the claim and drops it.
	DeleteClaim(ctx context.Context, claim *resourceapi.ResourceClaim)
	// Unreserve takes the Pod from those that a claim is reserved for. A failure is logged: the
	// claims' controller repairs it when the Pod ends.
	Unreserve(ctx context.Context, p *v1.Pod, claim *resourceapi.ResourceClaim)
	// BindClaims writes allocations and reservations, and waits until the devices' binding
	// conditions are met. Claims in the plan become what the API answered.
	BindClaims(ctx context.Context, p *v1.Pod, plan *Plan) error
}

// Plugin implements the extension points of this package.
type Plugin struct {
	draManager     framework.SharedDRAManager // nil: devices are not allocated here
	claimWriter    ClaimWriter                // nil: filters and scores only
	celCache       *cel.Cache
	filterTimeout  time.Duration // of one node's search; 0: none
	bindingTimeout time.Duration // with devices that have to become ready
	nodeCache      nodeCache
}

// New makes the plugin. Without a manager it refuses Pods with claims; without a claimWriter it
// filters and scores only. With a manager that is a NodePools most nodes need no call of the
// allocator.
func New(args *config.DynamicResourcesArgs, draManager framework.SharedDRAManager, claimWriter ClaimWriter) *Plugin {
	pl := &Plugin{draManager: draManager, claimWriter: claimWriter,
		celCache: cel.NewCache(celCacheSize, cel.Features{EnableConsumableCapacity: true})}
	pl.nodeCache.shapes = map[string]*shapeCache{}
	pl.nodeCache.pools, _ = draManager.(NodePools)
	if args != nil && args.FilterTimeout != nil {
		pl.filterTimeout = args.FilterTimeout.Duration
	}
	if args != nil && args.BindingTimeout != nil {
		pl.bindingTimeout = args.BindingTimeout.Duration
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
	_ schedule.Explainer          = (*Plugin)(nil)
	_ schedule.Skipper            = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

// cycleState is what one cycle knows of the Pod's claims. Nodes are filtered in parallel; each
// writes its own entry of allocations only.
type cycleState struct {
	claims      []*resourceapi.ResourceClaim
	selectors   []*nodeaffinity.NodeSelector // of claims that are allocated and not reachable from everywhere
	unallocated []int                        // claims to allocate
	classes     []*resourceapi.DeviceClass   // that these name, in their order
	extended    *extendedResources           // nil: no extended resource of the Pod is served by a device class
	// statuses cached from earlier Pods; nil: every node is filtered, with an entry in allocations
	cachedShape *shapeCache
	// of everything there is; nil: nothing has to be allocated, or one is made for each node asked
	allocator   structured.Allocator
	devices     *deviceState               // for explanations, where there is an allocator
	allocations map[string]*nodeAllocation // by node
	plan        *Plan                      // since Reserve
}

// nodeAllocation is what was found out about one node.
type nodeAllocation struct {
	results      []resourceapi.AllocationResult // of the unallocated claims, then of specialClaim
	specialClaim *resourceapi.ResourceClaim     // for extended resources on this node; nil: none needed
	mapping      []v1.ContainerExtendedResourceRequest
	unavailable  []int // claims that are allocated for other nodes
}

// Clone shares: a node's entry is written again with what is true for the copy, and only that of
// the node which is chosen in the end is read.
func (w *cycleState) Clone() framework.StateData { return w }

func cycleStateOf(state framework.CycleState) (*cycleState, error) {
	v, err := state.Read(stateKey)
	if err != nil {
		return nil, err
	}
	w, ok := v.(*cycleState)
	if !ok {
		return nil, errors.New("unable to convert state into stateData")
	}
	return w, nil
}

func unresolvable(text string) *framework.Status {
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, text)
}

// Skips tells whether the Pod has no claims, and asks for no extended resource that a device class
// serves.
func (pl *Plugin) Skips(p *v1.Pod, _ *snapshot.Snapshot) bool {
	return len(p.Spec.ResourceClaims) == 0 && !pl.servesExtended(p)
}

// SignPod refuses Pods with claims: equal Pods have different ones.
func (pl *Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	if !pl.Skips(p, nil) {
		return nil, framework.NewStatus(framework.Unschedulable, "pods with dra resource claims are not signable")
	}
	return nil, nil
}
