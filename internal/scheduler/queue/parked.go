package queue

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
)

// parked holds unschedulable and gated Pods, found by who refused them: an event that helps nobody else touches nobody else.
type parked struct {
	all   map[types.UID]*Entry
	by    map[key]map[*Entry]struct{}
	gated int
	due   time.Time // no Pod here is tried anew before, whatever happens; zero when nobody is here
}

// key is a plugin of a profile; the empty plugin stands for Pods that nobody is known to have refused.
type key struct{ profile, plugin string }

func newParked() parked {
	return parked{all: map[types.UID]*Entry{}, by: map[key]map[*Entry]struct{}{}}
}

func (p *parked) add(e *Entry, limit time.Duration) {
	p.all[e.Pod().UID] = e
	if e.Place == Gated {
		p.gated++
	}
	if t := e.due(limit); p.due.IsZero() || t.Before(p.due) {
		p.due = t
	}
	e.keys = keysOf(e)
	for _, k := range e.keys {
		if p.by[k] == nil {
			p.by[k] = map[*Entry]struct{}{}
		}
		p.by[k][e] = struct{}{}
	}
}

func (p *parked) remove(e *Entry) {
	delete(p.all, e.Pod().UID)
	if e.Place == Gated {
		p.gated--
	}
	for _, k := range e.keys {
		if delete(p.by[k], e); len(p.by[k]) == 0 {
			delete(p.by, k)
		}
	}
	e.keys = nil
	if len(p.all) == 0 {
		p.due = time.Time{}
	}
}

// due is when a parked Pod is tried anew whatever happened.
func (e *Entry) due(limit time.Duration) time.Time {
	if e.checked.After(e.Since) {
		return e.checked.Add(limit)
	}
	return e.Since.Add(limit)
}

func keysOf(e *Entry) []key {
	profile := e.Pod().Spec.SchedulerName
	if e.Place == Gated {
		return []key{{profile, e.GatedBy}}
	}
	var out []key
	for name := range e.Rejectors {
		out = append(out, key{profile, name})
	}
	for name := range e.PendingBy {
		if !e.Rejectors.Has(name) {
			out = append(out, key{profile, name})
		}
	}
	if out == nil {
		out = []key{{profile, ""}}
	}
	return out
}

// everyone lists all entries by arrival.
func (p *parked) everyone() []*Entry {
	out := make([]*Entry, 0, len(p.all))
	for _, e := range p.all {
		out = append(out, e)
	}
	return byArrival(out)
}

// touched lists by arrival the entries that an event may concern.
func (q *Queue) touched(ev Event) []*Entry {
	if len(q.parked.all) == 0 {
		return nil
	}
	if ev.Resource == framework.WildCard {
		return q.parked.everyone()
	}
	var out []*Entry
	seen := map[*Entry]bool{}
	for k, entries := range q.parked.by {
		if k.plugin != "" && !q.registered(k, ev.ClusterEvent) {
			continue
		}
		if whom := q.whom(k, ev.ClusterEvent); whom != nil {
			for _, uid := range whom(ev.Old, ev.New) {
				if e := q.parked.all[uid]; e != nil && e.Place == Gated && e.GatedBy == k.plugin {
					out = append(out, e)
				}
			}
			continue
		}
		for e := range entries {
			if len(e.keys) == 1 || !seen[e] {
				seen[e] = len(e.keys) > 1
				out = append(out, e)
			}
		}
	}
	return byArrival(out)
}

func (q *Queue) registered(k key, ev framework.ClusterEvent) bool {
	return slices.ContainsFunc(q.Hints[k.profile], func(h Hint) bool { return h.Plugin == k.plugin && covers(h.Event, ev) })
}

// whom is how a plugin tells which of the Pods that it keeps out an event may concern; nil when it does not.
func (q *Queue) whom(k key, ev framework.ClusterEvent) func(before, after any) []types.UID {
	for _, h := range q.Hints[k.profile] {
		if h.Plugin == k.plugin && h.Whom != nil && covers(h.Event, ev) {
			return h.Whom
		}
	}
	return nil
}

func byArrival(list []*Entry) []*Entry {
	slices.SortFunc(list, func(a, b *Entry) int { return cmp.Compare(a.seq, b.seq) })
	return list
}

// Refuser is a plugin of a profile.
type Refuser struct{ Profile, Plugin string }

// Refused counts the unschedulable Pods that each plugin refused last.
func (q *Queue) Refused() map[Refuser]int {
	out := map[Refuser]int{}
	for k, entries := range q.parked.by {
		if k.plugin != "" {
			out[Refuser{k.profile, k.plugin}] = len(entries)
		}
	}
	return out
}
