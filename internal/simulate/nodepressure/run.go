package nodepressure

import (
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/pod"
)

// Times say when a simulated node is looked at.
type Times struct {
	Period   time.Duration // between passes
	Duration time.Duration // of all
}

// Result is a simulation, pass by pass.
type Result struct {
	Node   string `json:"node,omitempty"`
	Passes []Pass `json:"passes"`
}

// Victim is a Pod that went.
type Victim struct {
	At     time.Duration `json:"at"`
	Pod    string        `json:"pod"` // NAMESPACE/NAME
	Signal string        `json:"signal"`
}

// Victims are the Pods that went, in order.
func (r *Result) Victims() []Victim {
	out := []Victim{}
	for _, l := range r.Passes {
		if l.Victim != nil {
			out = append(out, Victim{l.At, l.Victim.Pod, l.Target.Signal})
		}
	}
	return out
}

// Run looks at the node as the kubelet does: each period, and at once after a Pod has gone.
func Run(n Node, t Times) *Result {
	r := &Result{Node: n.Name}
	s := newState(&n)
	var before eviction.State
	for s.at <= t.Duration {
		d, l := s.pass(before)
		before = d.State
		r.Passes = append(r.Passes, l)
		if d.Victim == nil || l.Resolved {
			s.at += t.Period - s.at%t.Period
			continue
		}
		before = eviction.Evicted(d)
		p := n.podOf(d.Victim.Pod.Namespace + "/" + d.Victim.Pod.Name)
		takes := p.EndsAfter
		if takes == 0 {
			takes = DefaultEndsAfter
		}
		s.at += max(time.Millisecond, min(takes, d.Victim.Grace))
		s.gone[p.Pod.UID] = true
	}
	return r
}

// pass reads, decides, reclaims and decides again, as manager.look does.
func (s *state) pass(before eviction.State) (eviction.Decision, Pass) {
	in := s.in(before)
	d := eviction.Decide(in)
	l := newPass(s, in, d)
	if d.Target == nil {
		return d, l
	}
	for _, what := range d.Reclaim {
		x := ReclaimLine{What: string(what)}
		if !s.reclaimed[what] {
			x.Bytes = s.Reclaim[what]
		}
		s.reclaimed[what] = true
		l.Reclaimed = append(l.Reclaimed, x)
	}
	if len(d.Reclaim) > 0 && eviction.Resolved(in.Config, s.observations()) {
		l.Resolved = true
		return d, l
	}
	in.Pods, in.Use = s.present(), s.uses()
	d = eviction.Decide(in)
	l.rank(s, in, d)
	return d, l
}

// name is how results name a Pod.
func name(r eviction.Ranked) string { return r.Pod.Namespace + "/" + r.Pod.Name }

func priorityOf(r eviction.Ranked) int32 { return pod.Priority(r.Pod) }
