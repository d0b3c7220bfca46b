package queue

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
)

// QueueingHint is an event that a plugin registered for (EventsToRegister): it may help a Pod that
// the plugin refused. Fn decides; nil: it always helps.
type QueueingHint struct {
	Plugin string
	Event  framework.ClusterEvent
	Fn     framework.QueueingHintFn

	// ConcernedPods names the Pods that the event may concern of those the plugin keeps out; nil:
	// it may concern any. Its gate is not asked about others.
	ConcernedPods func(before, after any) []types.UID
}

// Event is a cluster event with the object before and after; either may be nil.
type Event struct {
	framework.ClusterEvent
	Old, New any
}

// Object is the object the event is about, as it is now or was last; nil when there is none.
func (e Event) Object() any {
	if e.New != nil {
		return e.New
	}
	return e.Old
}

// isForgottenPod tells whether the event is that a Pod lost the node it was assumed on. That
// helps others, not the Pod itself: who refused it there would do so again.
func (e Event) isForgottenPod(uid types.UID) bool {
	p, ok := e.Old.(*v1.Pod)
	return ok && p.UID == uid && e.Resource == framework.AssignedPod && e.ActionType == framework.Delete
}

// hintResult is what the hints of all plugins come to, in order of eagerness.
type hintResult int

const (
	queueSkip         hintResult = iota // the event does not help
	queueAfterBackoff                   // after its back-off
	queueImmediately                    // at once: the plugin had said "not yet"
)

// runQueueingHints asks the plugins that refused a Pod whether an event helps it, and names the
// plugin that decided; with queueSkip, one that was asked and expects no help.
func (q *Queue) runQueueingHints(e *Entry, ev Event) (hintResult, string) {
	if ev.Resource == framework.WildCard || len(e.UnschedulablePlugins)+len(e.PendingPlugins) == 0 {
		return queueAfterBackoff, ""
	}
	best, by := queueSkip, ""
	for _, h := range q.QueueingHints[e.Pod().Spec.SchedulerName] {
		pending := e.PendingPlugins.Has(h.Plugin)
		if !pending && (best == queueAfterBackoff || !e.UnschedulablePlugins.Has(h.Plugin)) || !eventMatches(h.Event,
			ev.ClusterEvent) {
			continue
		}
		if h.Fn != nil {
			q.eventInHand = ev.ClusterEvent
			if hint, err := h.Fn(q.Log, e.Pod(), ev.Old, ev.New); err == nil && hint == framework.QueueSkip {
				if best == queueSkip {
					by = h.Plugin
				}
				continue // an error counts as yes, so that no Pod is forgotten
			}
		}
		if pending {
			return queueImmediately, h.Plugin
		}
		best, by = queueAfterBackoff, h.Plugin
		if len(e.PendingPlugins) == 0 {
			break
		}
	}
	return best, by
}

// EventInHand is the event that hints are being asked about, for the metrics of hints.
func (q *Queue) EventInHand() framework.ClusterEvent { return q.eventInHand }

// eventMatches tells whether a registered event includes one that happened.
func eventMatches(registered, happened framework.ClusterEvent) bool {
	if registered.ActionType&happened.ActionType == 0 {
		return false
	}
	return registered.Resource == framework.WildCard || registered.Resource == happened.Resource ||
		registered.Resource == framework.Pod && isPod(happened.Resource)
}

func isPod(r framework.EventResource) bool {
	return r == framework.AssignedPod || r == framework.UnscheduledPod || r == framework.TargetPod
}

func registered(events []framework.ClusterEvent, happened framework.ClusterEvent) bool {
	return happened.Resource == framework.WildCard || slices.ContainsFunc(events,
		func(e framework.ClusterEvent) bool { return eventMatches(e, happened) })
}

// isRegistered tells whether any plugin of any profile registered for the event.
func (q *Queue) isRegistered(ev Event) bool {
	if ev.Resource == framework.WildCard {
		return true
	}
	for _, hints := range q.QueueingHints {
		if slices.ContainsFunc(hints, func(h QueueingHint) bool { return eventMatches(h.Event, ev.ClusterEvent) }) {
			return true
		}
	}
	return false
}

func (q *Queue) eventsOf(profile, plugin string) []framework.ClusterEvent {
	var out []framework.ClusterEvent
	for _, h := range q.QueueingHints[profile] {
		if h.Plugin == plugin {
			out = append(out, h.Event)
		}
	}
	return out
}
