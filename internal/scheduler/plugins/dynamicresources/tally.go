package dynamicresources

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// mostAsked is about how many looks the allocator is asked one after another; about more nodes are asked beside each other.
const mostAsked = 64

// Tallied is the shape of claims that have no devices yet, where verdicts on them are kept and no device is reached from several nodes.
func (pl *Plugin) Tallied(to []byte, p *v1.Pod) ([]byte, bool) {
	if pl.kept.stock == nil || len(p.Spec.ResourceClaims) == 0 || !pl.kept.stock.Apart() {
		return to, false
	}
	w, s := pl.begin(p)
	if s != nil || !pl.kept.keeps(w) {
		return to, false
	}
	key, err := shapeOf(w)
	if err != nil || pl.kept.unknown(key) > mostAsked {
		return to, false
	}
	return place.AppendString(to, key), true
}

// unknown counts the looks that some node had when a snapshot was followed last, and about which nothing is known for claims of a shape.
func (k *kept) unknown(shape string) (n int) {
	s := k.shelves[shape]
	for at, users := range k.users {
		if users > 0 && (s == nil || s.age != k.age || at >= len(s.verdicts) || s.verdicts[at].Load() == nil) {
			n++
		}
	}
	return n
}

// Tally begins with no Pod.
func (pl *Plugin) Tally(*v1.Pod, *columns.Table) place.Tally { return &tally{pl: pl} }

// tally lets a ruling ask about one node of each look.
type tally struct {
	pl *Plugin
	*work
}

var (
	_ place.Tallying = (*Plugin)(nil)
	_ place.Shifting = (*tally)(nil)
)

// Holds is true: what is known of a look holds for good.
func (*tally) Holds() bool { return true }

// Move does nothing: what nodes are does not matter to devices that one node alone reaches.
func (*tally) Move(int32, framework.NodeInfo, framework.NodeInfo) {}

// Keys has none.
func (*tally) Keys() []*columns.Labels { return nil }

var errUntold = errors.New("something is wrong with a claim or its class")

// PreFilter does what the plugin's does, and asks about a node of each look that is not known yet. An error has every node asked, which says it in full.
func (t *tally) PreFilter(state framework.CycleState, p *v1.Pod) *framework.Status {
	w, s := t.pl.begin(p)
	if s != nil {
		return s
	}
	if w.shelf = t.pl.kept.shelf(w, place.WorldOf(state)); w.shelf == nil || !w.shelf.apart {
		return framework.AsStatus(errUntold)
	}
	l := &t.pl.kept.looks
	for at := range l.users {
		row, used := l.example(int32(at))
		if !used || w.shelf.verdicts[at].Load() != nil {
			continue
		}
		t.pl.judge(context.Background(), w, l.objects[row])
		if w.shelf.verdicts[at].Load() == nil {
			return framework.AsStatus(errUntold)
		}
	}
	t.work = w
	state.Write(stateKey, w)
	return nil
}

// PreScore does what the plugin's does.
func (t *tally) PreScore(state framework.CycleState, p *v1.Pod, _ place.Feasible) *framework.Status {
	return t.pl.PreScore(context.Background(), state, p, nil)
}

func (t *tally) verdict(row int32) *verdict {
	return t.shelf.verdicts[t.shelf.looks.of[row]].Load()
}

// Opinion is what the allocator said of the rows' looks.
func (t *tally) Opinion() *columns.Opinion {
	return &columns.Opinion{
		Refuse: func(rows []int32, no []*framework.Status) {
			for i, row := range rows {
				if no[i] == nil {
					no[i] = t.verdict(row).no
				}
			}
		},
		Score: func(rows []int32, raw []int64) {
			for i, row := range rows {
				raw[i] = t.verdict(row).early
			}
		},
	}
}

// Look is the verdict.
func (t *tally) Look(to []byte, _ int, row int32) []byte {
	v := t.verdict(row)
	switch v.no {
	case nil:
		to = append(to, 0)
	case refusedAll:
		to = append(to, 1)
	default:
		to = append(to, 2)
	}
	return place.AppendInt(to, v.early)
}

// Since lists the nodes that got another look.
func (t *tally) Since(clock int64) (nodes []string, now int64, known bool) {
	return t.pl.kept.looks.Since(clock)
}
