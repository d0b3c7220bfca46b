package dynamicresources

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// mostShapes bounds what is kept: a pointer per node for claims of one shape, and a few words for each node that was asked.
const mostShapes = 64

// kept are the verdicts on nodes, by shape of claims, at the places that the nodes have in the newest snapshot.
type kept struct {
	stock   Stock              // nil: nothing is kept
	world   *snapshot.Snapshot // nil: none was seen
	shelves map[string]*shelf
	turn    int64
}

// shelf is what was found out about nodes for claims of one shape. A verdict stands until the node's object, its devices, or what is taken of them changes.
type shelf struct {
	*kept
	classes  []*resourceapi.DeviceClass // that the claims name, as they were
	clock    int64                      // of the Stock
	verdicts []*verdict                 // by place; nil: not known
	used     int64
}

// verdict is what the allocator said about a node.
type verdict struct {
	node  *v1.Node
	no    *framework.Status // nil: all claims can be allocated
	early int64             // score
}

// shelf finds or begins what is kept for a Pod with claims that have nothing yet; nil when nothing can be kept for it: without a Stock, with extended resources (which
// claims come of them depends on the node), with claims that are allocated for some nodes, and about snapshots that were edited before any other was seen.
func (k *kept) shelf(w *work, world *snapshot.Snapshot) *shelf {
	if k.stock == nil || w.extended != nil || len(w.missing) == 0 || w.bound() || !k.follow(world) {
		return nil
	}
	key, err := shapeOf(w)
	if err != nil {
		return nil
	}
	k.turn++
	s := k.shelves[key]
	if s == nil || !slices.Equal(s.classes, w.classes) {
		if s == nil && len(k.shelves) >= mostShapes {
			k.forget()
		}
		s = &shelf{kept: k, classes: w.classes, clock: -1, verdicts: make([]*verdict, k.world.Len())}
		k.shelves[key] = s
	}
	s.used = k.turn
	nodes, now, known := k.stock.Since(s.clock)
	s.clock = now
	if !known {
		clear(s.verdicts)
	}
	for _, name := range nodes {
		s.drop(name)
	}
	return s
}

// bound tells whether some claim is allocated for some nodes only.
func (w *work) bound() bool {
	for _, s := range w.selectors {
		if s != nil {
			return true
		}
	}
	return false
}

// shapeOf is all that the allocator reads of the claims, but for their names, which errors tell; errors are not kept.
func shapeOf(w *work) (string, error) {
	var key []byte
	for _, i := range w.missing {
		raw, err := w.claims[i].Spec.Devices.Marshal()
		if err != nil {
			return "", err
		}
		key = place.AppendString(key, string(raw))
	}
	return string(key), nil
}

// forget drops the shape that was not asked about for longest.
func (k *kept) forget() {
	oldest, turn := "", k.turn
	for key, s := range k.shelves {
		if s.used < turn {
			oldest, turn = key, s.used
		}
	}
	delete(k.shelves, oldest)
}

// follow moves verdicts to the places that their nodes have in a snapshot. Edited snapshots are passed over: false when no other was seen.
func (k *kept) follow(world *snapshot.Snapshot) bool {
	if world == nil || world.Layout() == 0 {
		return k.world != nil
	}
	was := k.world
	k.world = world
	if was != nil && was.Layout() == world.Layout() {
		return true
	}
	for _, s := range k.shelves {
		verdicts := make([]*verdict, world.Len())
		for _, v := range s.verdicts {
			if v == nil {
				continue
			}
			if at, ok := world.Index(v.node.Name); ok {
				verdicts[at] = v
			}
		}
		s.verdicts = verdicts
	}
	return true
}

// of gives what is known about a node; nil for nothing.
func (s *shelf) of(n *v1.Node) *verdict {
	if at, ok := s.world.Index(n.Name); ok {
		if v := s.verdicts[at]; v != nil && v.node == n {
			return v
		}
	}
	return nil
}

// keep remembers what was said about a node. Nodes are asked beside each other, each has its own place.
func (s *shelf) keep(v *verdict) {
	if at, ok := s.world.Index(v.node.Name); ok {
		s.verdicts[at] = v
	}
}

// drop forgets what was said about a node.
func (s *shelf) drop(node string) {
	if at, ok := s.world.Index(node); ok {
		s.verdicts[at] = nil
	}
}

// judge asks the allocator about a node unless what it said before still holds.
func (pl *Plugin) judge(ctx context.Context, w *work, n *v1.Node) *framework.Status {
	if v := w.shelf.of(n); v != nil {
		return v.no
	}
	results, no := pl.find(ctx, w, n, w.claimsFor(nil))
	if !lasting(no) {
		return no
	}
	w.shelf.keep(&verdict{node: n, no: no, early: w.early(results)})
	return no
}

// lasting tells whether the allocator would say the same again: not when its time was up, nor when something is wrong with a claim or class, which names the claim.
func lasting(s *framework.Status) bool {
	return s.IsSuccess() || s == refusedAll || s == refusedPools
}

// Verdicts that are the same about every node. They are shared and must not be changed.
var (
	refusedAll   = unresolvable(textNotAll).WithPlugin(Name)
	refusedPools = unresolvable(textPools).WithPlugin(Name)
)

// claimsFor are the claims that have to be allocated: those of the Pod, then that for its extended resources on a node, if there is one.
func (w *work) claimsFor(own *resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	claims := make([]*resourceapi.ResourceClaim, 0, len(w.missing)+1)
	for _, i := range w.missing {
		claims = append(claims, w.claims[i])
	}
	if own != nil {
		claims = append(claims, own)
	}
	return claims
}

// find looks for devices of the node for all of the claims.
func (pl *Plugin) find(ctx context.Context, w *work, n *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, *framework.Status) {
	allocator := w.allocator
	if allocator == nil {
		var err error
		if allocator, err = pl.newAllocator(ctx, pl.stockFor(w, n.Name)); err != nil {
			return nil, framework.AsStatus(err)
		}
	}
	bounded := ctx
	if pl.limit > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, pl.limit)
		defer cancel()
	}
	results, err := allocator.Allocate(bounded, n, claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, unresolvable(textTimeout)
	case ctx.Err() != nil:
		return nil, unresolvable("asked by caller to stop allocating devices: " + context.Cause(ctx).Error())
	case errors.Is(err, structured.ErrFailedAllocationOnNode) && err.Error() == textPools:
		return nil, refusedPools
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return nil, unresolvable(err.Error())
	case err != nil: // something is wrong with a claim or a class, on every node
		return nil, framework.AsStatus(err)
	case len(results) != len(claims):
		return nil, refusedAll
	}
	return results, nil
}
