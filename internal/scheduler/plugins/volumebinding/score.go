package volumebinding

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kube-scheduler/framework"
)

// SkipsPreScoreWithPreFilter tells that who was skipped by PreFilter is not scored either.
func (*Plugin) SkipsPreScoreWithPreFilter() {}

// PreScore skips Pods of which no claim waits for a node: all nodes would be as good.
func (pl *Plugin) PreScore(_ context.Context, state framework.CycleState, _ *v1.Pod,
	_ []framework.NodeInfo) *framework.Status {
	if w := claimsToBindOf(state); pl.shapeScore == nil || w == nil || len(w.unbound) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	return nil
}

// Score follows the shape by how much of what the node offers would be used.
func (pl *Plugin) Score(_ context.Context, state framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	w := claimsToBindOf(state)
	if pl.shapeScore == nil || w == nil {
		return 0, nil
	}
	plan, _, err := w.findPodVolumes(pl.listers, n.Node())
	if err != nil || plan == nil { // something changed since the node was found to serve: whoever reserves it sees that
		return 0, nil
	}
	return pl.score(plan), nil
}

// ScoreExtensions has none: scores are absolute.
func (*Plugin) ScoreExtensions() framework.ScoreExtensions { return nil }

// classUsage is how much of a storage class a plan takes and what there is.
type classUsage struct{ requested, capacity int64 }

// score is the mean over the storage classes: of volumes to be bound where there are any, otherwise
// of volumes to be provisioned whose room is known.
func (pl *Plugin) score(p *PodVolumes) int64 {
	uses := map[string]*classUsage{}
	of := func(class string) *classUsage {
		if uses[class] == nil {
			uses[class] = &classUsage{}
		}
		return uses[class]
	}
	for _, b := range p.StaticBindings {
		u := of(b.Volume.Spec.StorageClassName)
		u.requested += bytes(size(b.Claim))
		u.capacity += bytes(b.Volume.Spec.Capacity[v1.ResourceStorage])
	}
	if len(p.StaticBindings) == 0 {
		for i, c := range p.DynamicProvisions {
			if room := p.CapacityOf[i]; room != nil {
				u := of(volume.GetPersistentVolumeClaimClass(c))
				u.requested += bytes(size(c))
				u.capacity = room.Value() // the claims of a class share it
			}
		}
	}
	if len(uses) == 0 {
		return 0
	}
	var sum int64
	for _, u := range uses {
		sum += pl.shapeScore(u.requested, u.capacity)
	}
	return int64(math.Round(float64(sum) / float64(len(uses))))
}

func bytes(q resource.Quantity) int64 { return q.Value() }
