package queue

import (
	"container/list"

	"k8s.io/apimachinery/pkg/types"
)

// flight remembers Pods in flight and the events since the first of them took off: one list in order of time, holding take-offs (types.UID) and events.
type flight struct {
	log  *list.List
	pods map[types.UID]*list.Element
}

func newFlight() flight { return flight{log: list.New(), pods: map[types.UID]*list.Element{}} }

func (f *flight) has(uid types.UID) bool { return f.pods[uid] != nil }

func (f *flight) len() int { return len(f.pods) }

func (f *flight) begin(uid types.UID) { f.pods[uid] = f.log.PushBack(uid) }

// note keeps an event if anybody is in flight.
func (f *flight) note(ev Event) {
	if len(f.pods) > 0 {
		f.log.PushBack(ev)
	}
}

// since lists the events since a Pod's take-off.
func (f *flight) since(uid types.UID) []Event {
	start := f.pods[uid]
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

// end forgets a Pod, and the events nobody in flight needs any more.
func (f *flight) end(uid types.UID) {
	el := f.pods[uid]
	if el == nil {
		return
	}
	f.log.Remove(el)
	delete(f.pods, uid)
	for front := f.log.Front(); front != nil; front = f.log.Front() {
		if _, isEvent := front.Value.(Event); !isEvent {
			break
		}
		f.log.Remove(front)
	}
}

// counts gives the events kept by kind, and the Pods in flight as PodPopped.
func (f *flight) counts() map[string]int {
	out := map[string]int{}
	for el := f.log.Front(); el != nil; el = el.Next() {
		switch v := el.Value.(type) {
		case Event:
			out[v.Label()]++
		case types.UID:
			out["PodPopped"]++
		}
	}
	return out
}

// InFlightEvents counts by kind the events that are kept for Pods in flight; those Pods themselves count as PodPopped, as upstream names them.
func (q *Queue) InFlightEvents() map[string]int { return q.flight.counts() }
