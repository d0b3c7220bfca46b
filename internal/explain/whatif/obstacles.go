package whatif

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// maxObstacles bounds what is looked for behind a node's first refusal.
const maxObstacles = 4

// Obstacles returns everything that a node refuses a Pod for, in the order in which the plugins say
// so: each refusal is lifted on a copy, and the node is asked again. It ends with one that nothing
// lifts. None when the node takes the Pod.
func Obstacles(ctx context.Context, in In, node string) []journal.NodeRefusal {
	if in.MaxAttempts == 0 {
		in.MaxAttempts = 40
	}
	s := &search{in: in, ctx: ctx, emitted: map[string]bool{}}
	st := searchState{pod: in.Pod, snapshot: in.Snapshot}
	var out []journal.NodeRefusal
	for len(out) < maxObstacles {
		was, refused := s.refusal(st, node)
		if !refused {
			break
		}
		out = append(out, was)
		next, lifted := s.lift(st, was, node)
		if !lifted {
			break
		}
		st = next
	}
	return out
}

// refusal returns why a node refuses a Pod now.
func (s *search) refusal(st searchState, node string) (journal.NodeRefusal, bool) {
	r := s.schedule(st)
	if r == nil {
		return journal.NodeRefusal{}, false
	}
	all := r.Refusals(r.Nodes())
	i := slices.IndexFunc(all, func(n journal.NodeRefusal) bool { return n.Node == node })
	if i < 0 {
		return journal.NodeRefusal{}, false
	}
	return all[i], true
}

// lift applies the first change after which the node no longer says the same. A taint of the node's
// condition is taken off too: it is of the copy alone, and no remedy.
func (s *search) lift(st searchState, was journal.NodeRefusal, node string) (searchState, bool) {
	all := changes(st, was)
	if was.Plugin == "TaintToleration" {
		all = append(all, withoutTaints(node))
	}
	for _, c := range all {
		next, err := apply(st, c)
		if err != nil {
			continue
		}
		if after, refused := s.refusal(next, node); !refused || !same(after, was) {
			return next, true
		}
	}
	return st, false
}

func withoutTaints(node string) change {
	return change{kind: "taint", snapshot: func(w *snapshot.Snapshot) (*snapshot.Snapshot, error) {
		return editNode(w, node, func(n *v1.Node) { n.Spec.Taints = nil })
	}}
}

// movesOnly reports whether a change deletes a Pod of the same owner as the waiting one: its
// replacement then waits in its place.
func (s *search) movesOnly(c change) bool {
	owner := OwnerOf(s.in.Pod)
	return owner.Kind != "" && slices.ContainsFunc(c.pods, func(p *v1.Pod) bool {
		return p.Namespace == s.in.Pod.Namespace && OwnerOf(p) == owner
	})
}

// deletionCost says what a deletion costs beyond the Pod itself: more priority than the one it
// makes room for, and an owner that makes another one.
func (s *search) deletionCost(c change) string {
	text := ""
	for _, p := range c.pods {
		if n, own := pod.Priority(p), pod.Priority(s.in.Pod); n > own {
			text += fmt.Sprintf(" (%s has priority %d, more than the %d of this Pod)", p.Name, n, own)
		}
		if o := OwnerOf(p); o.Kind != "" {
			text += fmt.Sprintf(" (%s/%s makes another one, which needs room elsewhere)", o.Kind, o.Name)
		}
	}
	return text
}
