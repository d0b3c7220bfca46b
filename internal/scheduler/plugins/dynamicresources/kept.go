package dynamicresources

import (
	"context"
	"errors"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// mostShapes bounds what is kept: a pointer per look of nodes for claims of one shape, and a few words for each look that was asked about.
const mostShapes = 64

// kept are the verdicts, by shape of claims and look of nodes.
type kept struct {
	stock   Stock // nil: nothing is kept
	shelves map[string]*shelf
	turn    int64
	looks
}

// shelf is what was found out for claims of one shape.
type shelf struct {
	*kept
	age      int64                     // of the numbers
	verdicts []atomic.Pointer[verdict] // by look; nil: not known
	used     int64
}

// verdict is what the allocator said about a node.
type verdict struct {
	no    *framework.Status // nil: all claims can be allocated
	early int64             // score
}

// shelf finds or begins what is kept for a Pod with claims that have nothing yet; nil when nothing can be kept for it: without a Stock, with extended resources (which
// claims come of them depends on the node), with claims that are allocated for some nodes, and about snapshots that were edited before any other was seen.
func (k *kept) shelf(w *work, world *snapshot.Snapshot) *shelf {
	if !k.keeps(w) || !k.follow(k.stock, world) {
		return nil
	}
	key, err := shapeOf(w)
	if err != nil {
		return nil
	}
	k.turn++
	s := k.shelves[key]
	if s == nil {
		if len(k.shelves) >= mostShapes {
			k.drop()
		}
		s = &shelf{kept: k}
		k.shelves[key] = s
	}
	s.used = k.turn
	if s.age != k.age {
		s.age, s.verdicts = k.age, nil
	}
	if more := len(k.hashes) - len(s.verdicts); more > 0 {
		s.verdicts = append(s.verdicts, make([]atomic.Pointer[verdict], max(more, len(s.verdicts)))...)
	}
	return s
}

// keeps tells whether verdicts on claims like these can be kept at all.
func (k *kept) keeps(w *work) bool {
	return k.stock != nil && w.extended == nil && len(w.missing) > 0 && !w.bound()
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

// shapeOf is all that the allocator reads of the claims and their classes, but for the claims' names, which errors tell; errors are not kept.
func shapeOf(w *work) (string, error) {
	var key []byte
	for _, i := range w.missing {
		raw, err := w.claims[i].Spec.Devices.Marshal()
		if err != nil {
			return "", err
		}
		key = place.AppendString(key, string(raw))
	}
	for _, c := range w.classes {
		raw, err := c.Spec.Marshal()
		if err != nil {
			return "", err
		}
		key = place.AppendString(key, string(raw))
	}
	return string(key), nil
}

// drop drops the shape that was not asked about for longest.
func (k *kept) drop() {
	oldest, turn := "", k.turn
	for key, s := range k.shelves {
		if s.used < turn {
			oldest, turn = key, s.used
		}
	}
	delete(k.shelves, oldest)
}

// of gives what is known about a node; nil for nothing.
func (s *shelf) of(n *v1.Node) *verdict {
	if at, ok := s.at(n); ok {
		return s.verdicts[at].Load()
	}
	return nil
}

// keep remembers what was said about a node with what was looked at then, which may be newer than the node's number. Nodes are asked beside each other.
func (s *shelf) keep(n *v1.Node, seen *stock, v *verdict) {
	at, ok := s.at(n)
	if !ok || s.hashes[at] != lookless && s.hashes[at] != lookOf(seen) {
		return
	}
	s.verdicts[at].Store(v)
}

// judge asks the allocator about a node unless what it said before about one like it still holds.
func (pl *Plugin) judge(ctx context.Context, w *work, n *v1.Node) *verdict {
	if v := w.shelf.of(n); v != nil {
		return v
	}
	q := asked{n, pl.stockFor(w, n.Name), w.claimsFor(nil)}
	results, no := pl.find(ctx, w, q)
	v := &verdict{no: no, early: w.early(results)}
	if lasting(no) {
		w.shelf.keep(n, q.stock, v)
	}
	return v
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

// asked is a question to the allocator.
type asked struct {
	node   *v1.Node
	stock  *stock // that its devices are taken from
	claims []*resourceapi.ResourceClaim
}

// find looks for devices of the node for all of the claims.
func (pl *Plugin) find(ctx context.Context, w *work, q asked) ([]resourceapi.AllocationResult, *framework.Status) {
	allocator, n, claims := w.allocator, q.node, q.claims
	if allocator == nil {
		var err error
		if allocator, err = pl.newAllocator(ctx, q.stock); err != nil {
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
