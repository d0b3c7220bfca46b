package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
)

// Hint says that an event may help a Pod that a plugin refused; Fn has the last word, nil means yes.
type Hint struct {
	Plugin string
	Event  framework.ClusterEvent
	Fn     framework.QueueingHintFn

	// Whom names the Pods that the event may concern of those the plugin keeps out; nil: it may concern any. Its gate is not asked about others.
	Whom func(before, after any) []types.UID
}

// Event is something that happened in the cluster, with the object before and after; either may be nil.
type Event struct {
	framework.ClusterEvent
	Old, New any
}

// About gives the object the event is about, as it is now if it still is; nil when there is none.
func (e Event) About() any {
	if e.New != nil {
		return e.New
	}
	return e.Old
}

// worth is how eagerly a Pod should be retried.
type worth int

const (
	leave  worth = iota // the event does not help
	later               // after its back-off
	atOnce              // at once: the plugin had said "not yet"
)

// worth asks the plugins that refused the Pod whether the event helps, and tells whose word decided; with leave, who was asked and saw no help.
func (q *Queue) worth(e *Entry, ev Event) (worth, string) {
	if ev.Resource == framework.WildCard || len(e.Rejectors)+len(e.PendingBy) == 0 {
		return later, ""
	}
	best, by := leave, ""
	for _, h := range q.Hints[e.Pod().Spec.SchedulerName] {
		pending := e.PendingBy.Has(h.Plugin)
		if !pending && (best == later || !e.Rejectors.Has(h.Plugin)) || !covers(h.Event, ev.ClusterEvent) {
			continue
		}
		if h.Fn != nil {
			q.asked = ev.ClusterEvent
			if hint, err := h.Fn(q.Log, e.Pod(), ev.Old, ev.New); err == nil && hint == framework.QueueSkip {
				if best == leave {
					by = h.Plugin
				}
				continue // an error counts as yes, so that no Pod is forgotten
			}
		}
		if pending {
			return atOnce, h.Plugin
		}
		best, by = later, h.Plugin
		if len(e.PendingBy) == 0 {
			break
		}
	}
	return best, by
}

// Asked is the event that hints are asked about; for them to tell.
func (q *Queue) Asked() framework.ClusterEvent { return q.asked }

// covers tells whether a registered event includes one that happened.
func covers(registered, happened framework.ClusterEvent) bool {
	if registered.ActionType&happened.ActionType == 0 {
		return false
	}
	return registered.Resource == framework.WildCard || registered.Resource == happened.Resource || registered.Resource == framework.Pod && isPod(happened.Resource)
}

func isPod(r framework.EventResource) bool {
	return r == framework.AssignedPod || r == framework.UnscheduledPod || r == framework.TargetPod
}

func registered(events []framework.ClusterEvent, happened framework.ClusterEvent) bool {
	return happened.Resource == framework.WildCard || slices.ContainsFunc(events, func(e framework.ClusterEvent) bool { return covers(e, happened) })
}

// ofInterest tells whether any plugin of any profile registered for the event.
func (q *Queue) ofInterest(ev Event) bool {
	if ev.Resource == framework.WildCard {
		return true
	}
	for _, hints := range q.Hints {
		if slices.ContainsFunc(hints, func(h Hint) bool { return covers(h.Event, ev.ClusterEvent) }) {
			return true
		}
	}
	return false
}

func (q *Queue) eventsOf(profile, plugin string) []framework.ClusterEvent {
	var out []framework.ClusterEvent
	for _, h := range q.Hints[profile] {
		if h.Plugin == plugin {
			out = append(out, h.Event)
		}
	}
	return out
}
