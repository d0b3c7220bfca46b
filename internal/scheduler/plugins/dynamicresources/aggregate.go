package dynamicresources

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// maxNodesPerCycle is about how many looks the allocator is asked one after another; about more
// nodes are asked beside each other.
const maxNodesPerCycle = 64

// AppendAggregateKey is the shape of claims that have no devices yet, where statuses on them are
// kept and no device is reached from several nodes.
func (pl *Plugin) AppendAggregateKey(to []byte, p *v1.Pod) ([]byte, schedule.NewAggregate) {
	if pl.nodeCache.pools == nil || len(p.Spec.ResourceClaims) == 0 || !pl.nodeCache.pools.AllNodeLocal() {
		return to, nil
	}
	w, s := pl.newCycleState(p)
	if s != nil || !pl.nodeCache.isCacheable(w) {
		return to, nil
	}
	key, err := shapeKeyOf(w)
	if err != nil || pl.nodeCache.countUncached(key) > maxNodesPerCycle {
		return to, nil
	}
	return schedule.AppendString(to, key), pl.newAggregate
}

// countUncached counts the looks that some node had when a snapshot was followed last, and about
// which nothing is known for claims of a shape.
func (k *nodeCache) countUncached(shape string) (n int) {
	s := k.shapes[shape]
	for at, users := range k.users {
		if users > 0 && (s == nil || s.builtAt != k.generation || at >= len(s.results) || s.results[at].Load() == nil) {
			n++
		}
	}
	return n
}

func (pl *Plugin) newAggregate(*columns.Rows) schedule.Aggregate { return &aggregate{plugin: pl} }

// aggregate lets a scheduling cycle ask about one node of each nodeState.
type aggregate struct {
	plugin *Plugin
	shape  *shapeCache // of the claims of all its Pods; nil before the first PreFilter
}

var (
	_ schedule.AggregatingPlugin = (*Plugin)(nil)
	_ schedule.ChangeSource      = (*aggregate)(nil)
)

// Valid is true: what is known of a look holds for good.
func (*aggregate) Valid() bool { return true }

// UpdateRow does nothing: what nodes are does not matter to devices that one node alone reaches.
func (*aggregate) UpdateRow(int32, framework.NodeInfo, framework.NodeInfo) {}

// TopologyLabels has none.
func (*aggregate) TopologyLabels() []*columns.Labels { return nil }

var errNotEvaluated = errors.New("something is wrong with a claim or its class")

// PreFilter does what the plugin's does, and asks about a node of each look that is not known yet.
// An error has every node asked, which says it in full.
func (t *aggregate) PreFilter(state framework.CycleState, p *v1.Pod) *framework.Status {
	w, s := t.plugin.newCycleState(p)
	if s != nil {
		return s
	}
	if w.cachedShape = t.plugin.nodeCache.cachedShapeOf(w, schedule.SnapshotOf(state)); w.cachedShape == nil ||
		!w.cachedShape.nodes.allNodeLocal {
		return framework.AsStatus(errNotEvaluated)
	}
	l := &t.plugin.nodeCache.nodeStates
	for at := range l.users {
		row, used := l.rowWithState(int32(at))
		if !used || w.cachedShape.results[at].Load() != nil {
			continue
		}
		t.plugin.evaluateNode(context.Background(), w, l.objects[row])
		if w.cachedShape.results[at].Load() == nil {
			return framework.AsStatus(errNotEvaluated)
		}
	}
	t.shape = w.cachedShape
	state.Write(stateKey, w)
	return nil
}

// PreScore does what the plugin's does.
func (t *aggregate) PreScore(state framework.CycleState, p *v1.Pod, _ schedule.Feasible) *framework.Status {
	return t.plugin.PreScore(context.Background(), state, p, nil)
}

func (t *aggregate) resultOfRow(row int32) *nodeResult {
	return t.shape.results[t.shape.nodes.stateOfRow[row]].Load()
}

// Evaluator is what the allocator said of the rows' looks.
func (t *aggregate) Evaluator() *columns.Evaluator {
	return &columns.Evaluator{
		Filter: func(rows []int32, no []*framework.Status) {
			for i, row := range rows {
				if no[i] == nil {
					no[i] = t.resultOfRow(row).status
				}
			}
		},
		Score: func(rows []int32, raw []int64) {
			for i, row := range rows {
				raw[i] = t.resultOfRow(row).score
			}
		},
	}
}

// AppendRowState is the result.
func (t *aggregate) AppendRowState(to []byte, _ int, row int32) []byte {
	v := t.resultOfRow(row)
	switch v.status {
	case nil:
		to = append(to, 0)
	case statusNotAll:
		to = append(to, 1)
	default:
		to = append(to, 2)
	}
	return schedule.AppendInt(to, v.score)
}

// Since lists the nodes that got another look.
func (t *aggregate) Since(clock int64) (nodes []string, now int64, known bool) {
	return t.plugin.nodeCache.nodeStates.Since(clock)
}
