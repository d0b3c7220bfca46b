package queue

import (
	"container/list"

	"k8s.io/apimachinery/pkg/types"
)

// inFlightEvents remembers Pods in flight and the events since the first of them took off: one list
// in order of time, holding take-offs (types.UID) and events.
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

// addEvent keeps an event if anybody is in flight.
func (f *inFlightEvents) addEvent(ev Event) {
	if len(f.inFlightPods) > 0 {
		f.events.PushBack(ev)
	}
}

// eventsSince lists the events since a Pod's take-off.
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

// removePod forgets a Pod, and the events nobody in flight needs any more.
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

// counts gives the events kept by kind, and the Pods in flight as PodPopped.
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

// InFlightEvents counts by kind the events that are kept for Pods in flight; those Pods themselves
// count as PodPopped, as upstream names them.
func (q *Queue) InFlightEvents() map[string]int { return q.inFlight.counts() }
