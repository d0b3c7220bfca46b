package dynamicresources

import (
	"context"
	"errors"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// maxShapes bounds what is kept: a pointer per look of nodes for claims of one shape, and a few
// words for each look that was asked about.
const maxShapes = 64

// nodeCache are the statuses, by shape of claims and look of nodes.
type nodeCache struct {
	pools  NodePools // nil: nothing is kept
	shapes map[string]*shapeCache
	turn   int64
	nodeStates
}

// shapeCache is what was found out for claims of one shape.
type shapeCache struct {
	nodes   *nodeCache
	builtAt int64                        // of the numbers
	results []atomic.Pointer[nodeResult] // by look; nil: not known
	used    int64
}

// nodeResult is what the allocator said about a node.
type nodeResult struct {
	status *framework.Status // nil: all claims can be allocated
	score  int64             // score
}

// cachedShapeOf finds or begins what is kept for a Pod with claims that have nothing yet; nil when
// nothing can be kept for it: without a NodePools, with extended resources (which claims come of
// them depends on the node), with claims that are allocated for some nodes, and about snapshots
// that were edited before any other was seen.
func (k *nodeCache) cachedShapeOf(w *cycleState, snap *snapshot.Snapshot) *shapeCache {
	if !k.isCacheable(w) || !k.sync(k.pools, snap) {
		return nil
	}
	key, err := shapeKeyOf(w)
	if err != nil {
		return nil
	}
	k.turn++
	s := k.shapes[key]
	if s == nil {
		if len(k.shapes) >= maxShapes {
			k.evict()
		}
		s = &shapeCache{nodes: k}
		k.shapes[key] = s
	}
	s.used = k.turn
	if s.builtAt != k.generation {
		s.builtAt, s.results = k.generation, nil
	}
	if more := len(k.hashes) - len(s.results); more > 0 {
		s.results = append(s.results, make([]atomic.Pointer[nodeResult], max(more, len(s.results)))...)
	}
	return s
}

// isCacheable tells whether statuses on claims like these can be kept at all.
func (k *nodeCache) isCacheable(w *cycleState) bool {
	return k.pools != nil && w.extended == nil && len(w.unallocated) > 0 && !w.isAllocated()
}

// isAllocated tells whether some claim is allocated for some nodes only.
func (w *cycleState) isAllocated() bool {
	for _, s := range w.selectors {
		if s != nil {
			return true
		}
	}
	return false
}

// shapeKeyOf is all that the allocator reads of the claims and their classes, but for the claims'
// names, which errors tell; errors are not kept.
func shapeKeyOf(w *cycleState) (string, error) {
	var key []byte
	for _, i := range w.unallocated {
		raw, err := w.claims[i].Spec.Devices.Marshal()
		if err != nil {
			return "", err
		}
		key = schedule.AppendString(key, string(raw))
	}
	for _, c := range w.classes {
		raw, err := c.Spec.Marshal()
		if err != nil {
			return "", err
		}
		key = schedule.AppendString(key, string(raw))
	}
	return string(key), nil
}

// evict drops the shape that was not asked about for longest.
func (k *nodeCache) evict() {
	oldest, turn := "", k.turn
	for key, s := range k.shapes {
		if s.used < turn {
			oldest, turn = key, s.used
		}
	}
	delete(k.shapes, oldest)
}

// resultOf gives what is known about a node; nil for nothing.
func (s *shapeCache) resultOf(n *v1.Node) *nodeResult {
	if at, ok := s.nodes.stateOfNode(n); ok {
		return s.results[at].Load()
	}
	return nil
}

// store remembers what was said about a node with what was looked at then, which may be newer than
// the node's number. Nodes are asked beside each other.
func (s *shapeCache) store(n *v1.Node, seen *deviceState, v *nodeResult) {
	at, ok := s.nodes.stateOfNode(n)
	if !ok || s.nodes.hashes[at] != noNodeState && s.nodes.hashes[at] != nodeStateOf(seen) {
		return
	}
	s.results[at].Store(v)
}

// evaluateNode asks the allocator about a node unless what it said before about one like it still
// holds.
func (pl *Plugin) evaluateNode(ctx context.Context, w *cycleState, n *v1.Node) *nodeResult {
	if v := w.cachedShape.resultOf(n); v != nil {
		return v
	}
	q := nodeQuery{n, pl.devicesFor(w, n.Name), w.claimsFor(nil)}
	results, no := pl.runAllocator(ctx, w, q)
	v := &nodeResult{status: no, score: w.subrequestScores(results)}
	if isCacheableStatus(no) {
		w.cachedShape.store(n, q.stock, v)
	}
	return v
}

// isCacheableStatus tells whether the allocator would say the same again: not when its time was up,
// nor when something is wrong with a claim or class, which names the claim.
func isCacheableStatus(s *framework.Status) bool {
	return s.IsSuccess() || s == statusNotAll || s == statusPools
}

// Statuses that are the same about every node. They are shared and must not be changed.
var (
	statusNotAll = unresolvable(textNotAll).WithPlugin(Name)
	statusPools  = unresolvable(textPools).WithPlugin(Name)
)

// claimsFor are the claims that have to be allocated: those of the Pod, then that for its extended
// resources on a node, if there is one.
func (w *cycleState) claimsFor(own *resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	claims := make([]*resourceapi.ResourceClaim, 0, len(w.unallocated)+1)
	for _, i := range w.unallocated {
		claims = append(claims, w.claims[i])
	}
	if own != nil {
		claims = append(claims, own)
	}
	return claims
}

// nodeQuery is a question to the allocator.
type nodeQuery struct {
	node   *v1.Node
	stock  *deviceState // that its devices are taken from
	claims []*resourceapi.ResourceClaim
}

// runAllocator looks for devices of the node for all of the claims.
func (pl *Plugin) runAllocator(ctx context.Context, w *cycleState,
	q nodeQuery) ([]resourceapi.AllocationResult, *framework.Status) {
	allocator, n, claims := w.allocator, q.node, q.claims
	if allocator == nil {
		var err error
		if allocator, err = pl.newAllocator(ctx, q.stock); err != nil {
			return nil, framework.AsStatus(err)
		}
	}
	bounded := ctx
	if pl.filterTimeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, pl.filterTimeout)
		defer cancel()
	}
	results, err := allocator.Allocate(bounded, n, claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, unresolvable(textTimeout)
	case ctx.Err() != nil:
		return nil, unresolvable("asked by caller to stop allocating devices: " + context.Cause(ctx).Error())
	case errors.Is(err, structured.ErrFailedAllocationOnNode) && err.Error() == textPools:
		return nil, statusPools
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return nil, unresolvable(err.Error())
	case err != nil: // something is wrong with a claim or a class, on every node
		return nil, framework.AsStatus(err)
	case len(results) != len(claims):
		return nil, statusNotAll
	}
	return results, nil
}
