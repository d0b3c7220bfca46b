package queue

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
)

// unschedulablePods are the unschedulable and gated entries, found by the plugins that refused
// them: an event looks only at the entries that it may help.
type unschedulablePods struct {
	all       map[types.UID]*Entry
	byRefuser map[refuserKey]map[*Entry]struct{}
	gated     int
	nextFlush time.Time // no earlier than this is any Pod here tried again by time; zero when there is none
}

// refuserKey is a plugin of a profile; the empty plugin stands for entries that no plugin is known
// to have refused.
type refuserKey struct{ profile, plugin string }

func newUnschedulablePods() unschedulablePods {
	return unschedulablePods{all: map[types.UID]*Entry{}, byRefuser: map[refuserKey]map[*Entry]struct{}{}}
}

// add takes an entry; limit is how long it may wait before it is tried whatever happens.
func (p *unschedulablePods) add(e *Entry, limit time.Duration) {
	p.all[e.Pod().UID] = e
	if e.Stage == Gated {
		p.gated++
	}
	if t := e.flushTime(limit); p.nextFlush.IsZero() || t.Before(p.nextFlush) {
		p.nextFlush = t
	}
	e.refusers = refuserKeys(e)
	for _, k := range e.refusers {
		if p.byRefuser[k] == nil {
			p.byRefuser[k] = map[*Entry]struct{}{}
		}
		p.byRefuser[k][e] = struct{}{}
	}
}

func (p *unschedulablePods) remove(e *Entry) {
	delete(p.all, e.Pod().UID)
	if e.Stage == Gated {
		p.gated--
	}
	for _, k := range e.refusers {
		if delete(p.byRefuser[k], e); len(p.byRefuser[k]) == 0 {
			delete(p.byRefuser, k)
		}
	}
	e.refusers = nil
	if len(p.all) == 0 {
		p.nextFlush = time.Time{}
	}
}

// flushTime is when an entry is tried again whatever happened; limit is MaxUnschedulableTime.
func (e *Entry) flushTime(limit time.Duration) time.Time {
	if e.gateCheckedAt.After(e.Timestamp) {
		return e.gateCheckedAt.Add(limit)
	}
	return e.Timestamp.Add(limit)
}

// refuserKeys are the plugins that keep an entry here.
func refuserKeys(e *Entry) []refuserKey {
	profile := e.Pod().Spec.SchedulerName
	if e.Stage == Gated {
		return []refuserKey{{profile, e.GatingPlugin}}
	}
	var out []refuserKey
	for name := range e.UnschedulablePlugins {
		out = append(out, refuserKey{profile, name})
	}
	for name := range e.PendingPlugins {
		if !e.UnschedulablePlugins.Has(name) {
			out = append(out, refuserKey{profile, name})
		}
	}
	if out == nil {
		out = []refuserKey{{profile, ""}}
	}
	return out
}

// sorted lists all entries by arrival.
func (p *unschedulablePods) sorted() []*Entry {
	out := make([]*Entry, 0, len(p.all))
	for _, e := range p.all {
		out = append(out, e)
	}
	return sortByArrival(out)
}

// concernedEntries lists by arrival the entries whose refusing plugins registered for an event.
func (q *Queue) concernedEntries(ev Event) []*Entry {
	if len(q.unschedulable.all) == 0 {
		return nil
	}
	if ev.Resource == framework.WildCard {
		return q.unschedulable.sorted()
	}
	var out []*Entry
	seen := map[*Entry]bool{}
	for k, entries := range q.unschedulable.byRefuser {
		if k.plugin != "" && !q.registered(k, ev.ClusterEvent) {
			continue
		}
		if whom := q.concernedPods(k, ev.ClusterEvent); whom != nil {
			for _, uid := range whom(ev.Old, ev.New) {
				if e := q.unschedulable.all[uid]; e != nil && e.Stage == Gated && e.GatingPlugin == k.plugin {
					out = append(out, e)
				}
			}
			continue
		}
		for e := range entries {
			if len(e.refusers) == 1 || !seen[e] {
				seen[e] = len(e.refusers) > 1
				out = append(out, e)
			}
		}
	}
	return sortByArrival(out)
}

// registered tells whether a plugin registered for an event (EventsToRegister).
func (q *Queue) registered(k refuserKey, ev framework.ClusterEvent) bool {
	return slices.ContainsFunc(q.QueueingHints[k.profile],
		func(h QueueingHint) bool { return h.Plugin == k.plugin && eventMatches(h.Event, ev) })
}

// concernedPods is the function by which a plugin names the gated Pods that an event may concern;
// nil when it names none, and all are looked at.
func (q *Queue) concernedPods(k refuserKey, ev framework.ClusterEvent) func(before, after any) []types.UID {
	for _, h := range q.QueueingHints[k.profile] {
		if h.Plugin == k.plugin && h.ConcernedPods != nil && eventMatches(h.Event, ev) {
			return h.ConcernedPods
		}
	}
	return nil
}

func sortByArrival(list []*Entry) []*Entry {
	slices.SortFunc(list, func(a, b *Entry) int { return cmp.Compare(a.seq, b.seq) })
	return list
}

// UnschedulablePlugin is a plugin of a profile.
type UnschedulablePlugin struct{ Profile, Plugin string }

// UnschedulablePodsByPlugin counts the unschedulable Pods that each plugin refused last.
func (q *Queue) UnschedulablePodsByPlugin() map[UnschedulablePlugin]int {
	out := map[UnschedulablePlugin]int{}
	for k, entries := range q.unschedulable.byRefuser {
		if k.plugin != "" {
			out[UnschedulablePlugin{k.profile, k.plugin}] = len(entries)
		}
	}
	return out
}
