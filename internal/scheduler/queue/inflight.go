package queue

import (
	"container/list"

	"k8s.io/apimachinery/pkg/types"
)

// inFlightEvents keeps the Pods in flight and the events since the first of them was popped: one
// list in order of time, of popped Pods (types.UID) and events.
type inFlightEvents struct {
	events       *list.List
	inFlightPods map[types.UID]*list.Element
}

func newInFlightEvents() inFlightEvents {
	return inFlightEvents{events: list.New(), inFlightPods: map[types.UID]*list.Element{}}
}

func (f *inFlightEvents) has(uid types.UID) bool { return f.inFlightPods[uid] != nil }

func (f *inFlightEvents) len() int { return len(f.inFlightPods) }

func (f *inFlightEvents) addPod(uid types.UID) { f.inFlightPods[uid] = f.events.PushBack(uid) }

// addEvent keeps an event while any Pod is in flight.
func (f *inFlightEvents) addEvent(ev Event) {
	if len(f.inFlightPods) > 0 {
		f.events.PushBack(ev)
	}
}

// eventsSince lists the events since a Pod was popped.
func (f *inFlightEvents) eventsSince(uid types.UID) []Event {
	start := f.inFlightPods[uid]
	if start == nil {
		return nil
	}
	var out []Event
	for el := start.Next(); el != nil; el = el.Next() {
		if ev, ok := el.Value.(Event); ok {
			out = append(out, ev)
		}
	}
	return out
}

// removePod forgets a Pod, and the events that no other Pod in flight needs.
func (f *inFlightEvents) removePod(uid types.UID) {
	el := f.inFlightPods[uid]
	if el == nil {
		return
	}
	f.events.Remove(el)
	delete(f.inFlightPods, uid)
	for front := f.events.Front(); front != nil; front = f.events.Front() {
		if _, isEvent := front.Value.(Event); !isEvent {
			break
		}
		f.events.Remove(front)
	}
}

// counts gives the number of kept events by label, and of Pods in flight as PodPopped.
func (f *inFlightEvents) counts() map[string]int {
	out := map[string]int{}
	for el := f.events.Front(); el != nil; el = el.Next() {
		switch v := el.Value.(type) {
		case Event:
			out[v.Label()]++
		case types.UID:
			out["PodPopped"]++
		}
	}
	return out
}

// InFlightEvents counts the events that are kept for Pods in flight by label; those Pods count as
// PodPopped, as upstream's metric has it.
func (q *Queue) InFlightEvents() map[string]int { return q.inFlight.counts() }
