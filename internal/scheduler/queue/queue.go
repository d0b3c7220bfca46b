package queue

import (
	"container/heap"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Upstream's defaults.
const (
	DefaultInitialBackoff = time.Second
	DefaultMaxBackoff     = 10 * time.Second
	DefaultMaxParked      = 5 * time.Minute // after this an unschedulable Pod is tried again whatever happened

	backoffWindow = time.Second // Pods whose back-off ends in the same window go by the active order
)

// Options are the rules of a queue.
type Options struct {
	Less           framework.LessFunc                // the active order
	Gate           func(p *v1.Pod) *framework.Status // asked before a Pod goes to active or backoff; nil: always open
	Hints          map[string][]Hint                 // by scheduler name: which events wake whom
	InitialBackoff time.Duration                     // 0: DefaultInitialBackoff
	MaxBackoff     time.Duration                     // 0: DefaultMaxBackoff
	MaxParked      time.Duration                     // 0: DefaultMaxParked
	Log            logr.Logger                       // handed to hint functions
}

// Move says that a Pod was put somewhere.
type Move struct {
	Entry *Entry
	To    Place
	Cause string // event label as upstream names it: PodAdd, NodeAdd, ScheduleAttemptFailure, …
	By    string // plugin whose hint found the event helpful, or whose gate is closed
	About any    // the object the event was about; nil when none
}

// Causes that are no cluster events.
const (
	CausePodAdd     = "PodAdd"
	CausePodUpdate  = "PodUpdate"
	CauseFailure    = "ScheduleAttemptFailure"
	CauseBackoff    = "BackoffComplete"
	CauseTimeout    = "UnschedulableTimeout"
	CauseActivation = "ForceActivate"
)

// Queue holds all Pods that want a node.
type Queue struct {
	Options
	active  heapOf
	backoff heapOf
	parked  map[types.UID]*Entry // unschedulable and gated
	all     map[types.UID]*Entry // all but those in flight
	flight  flight
	seq     uint64
}

// New makes an empty queue.
func New(o Options) *Queue {
	if o.InitialBackoff == 0 {
		o.InitialBackoff = DefaultInitialBackoff
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = DefaultMaxBackoff
	}
	if o.MaxParked == 0 {
		o.MaxParked = DefaultMaxParked
	}
	q := &Queue{Options: o, parked: map[types.UID]*Entry{}, all: map[types.UID]*Entry{}, flight: newFlight()}
	byOrder := func(a, b *Entry) bool { return o.Less(a, b) }
	q.active.less = byOrder
	q.backoff.less = func(a, b *Entry) bool {
		if x, y := a.BackoffUntil.Truncate(backoffWindow), b.BackoffUntil.Truncate(backoffWindow); !x.Equal(y) {
			return x.Before(y)
		}
		return byOrder(a, b)
	}
	return q
}

// Add takes in a Pod that wants a node. A Pod already known is updated.
func (q *Queue) Add(p *v1.Pod, now time.Time) []Move {
	if q.all[p.UID] != nil || q.flight.has(p.UID) {
		return q.Update(nil, p, now)
	}
	info, _ := snapshot.NewPodInfo(p) // an affinity term that cannot be read is reported when the Pod is judged
	q.seq++
	e := &Entry{Info: info, Since: now, Arrived: now, seq: q.seq, Rejectors: sets.Set[string]{}, PendingBy: sets.Set[string]{}}
	q.all[p.UID] = e
	return []Move{q.put(e, Active, wish{cause: CausePodAdd})}
}

// Update takes in a change of a Pod that wants a node; old may be nil. It may wake the Pod itself.
func (q *Queue) Update(old, p *v1.Pod, now time.Time) []Move {
	changes := PodChange(framework.TargetPod, old, p)
	if q.flight.has(p.UID) {
		for _, c := range changes {
			q.flight.note(Event{c, old, p})
		}
		return nil
	}
	e := q.all[p.UID]
	if e == nil {
		return q.Add(p, now)
	}
	e.Info, _ = snapshot.NewPodInfo(p)
	switch e.Place {
	case Active:
		heap.Fix(&q.active, e.at)
	case Backoff:
		heap.Fix(&q.backoff, e.at)
	case Gated:
		if len(changes) > 0 && q.gate(e) == nil {
			return []Move{q.put(e, Active, wish{cause: changes[0].Label()})}
		}
	case Unschedulable:
		for _, c := range changes {
			if w, by := q.worth(e, Event{c, old, p}); w != leave {
				return []Move{q.wake(e, wish{w, c.Label(), by, nil}, now)}
			}
		}
	}
	return nil
}

// Delete forgets a Pod.
func (q *Queue) Delete(uid types.UID) {
	e := q.all[uid]
	if e == nil {
		return
	}
	q.lift(e)
	delete(q.all, uid)
}

// Pop takes the next Pod; nil when nobody may be tried now. Done must be called when its fate is known.
func (q *Queue) Pop(now time.Time) *Entry {
	var e *Entry
	switch {
	case len(q.active.list) > 0:
		e = heap.Pop(&q.active).(*Entry)
	case len(q.backoff.list) > 0:
		if e = q.eager(); e == nil {
			return nil
		}
		heap.Remove(&q.backoff, e.at)
	default:
		return nil
	}
	delete(q.all, e.Pod().UID)
	e.Place = InFlight
	e.Attempts++
	if e.First == nil {
		e.First = &now
	}
	q.flight.begin(e.Pod().UID)
	return e
}

// eager finds the first Pod in backoff that did not fail by an error: idling would help nobody.
func (q *Queue) eager() *Entry {
	var best *Entry
	for _, e := range q.backoff.list {
		if e.Errors == 0 && (best == nil || q.backoff.less(e, best)) {
			best = e
		}
	}
	return best
}

// Done ends a Pod's flight: it was bound, is gone, or came back.
func (q *Queue) Done(uid types.UID) { q.flight.end(uid) }

// Failed is why an attempt failed; with neither set it was an error.
type Failed struct{ Rejectors, Pending sets.Set[string] }

// Return takes back a popped Pod that could not be placed. Events of the meantime may wake it at once. It ends the flight.
func (q *Queue) Return(e *Entry, f Failed, now time.Time) []Move {
	defer q.Done(e.Pod().UID)
	if q.all[e.Pod().UID] != nil {
		return nil // made anew meanwhile
	}
	e.Rejectors, e.PendingBy, e.Since = f.Rejectors, f.Pending, now
	switch {
	case len(f.Rejectors)+len(f.Pending) == 0:
		e.Errors++
	default:
		e.Errors = 0
		if len(f.Rejectors) > 0 {
			e.Misses++
		}
	}
	e.BackoffUntil = now.Add(q.backoffOf(e))
	q.all[e.Pod().UID] = e
	w := wish{worth: leave, cause: CauseFailure}
	if len(f.Rejectors)+len(f.Pending) == 0 {
		w.worth = later
	}
	for _, ev := range q.flight.since(e.Pod().UID) {
		if worth, by := q.worth(e, ev); worth > w.worth {
			w = wish{worth, ev.Label(), by, ev.About()}
		}
	}
	return []Move{q.wake(e, w, now)}
}

// backoffOf doubles from InitialBackoff with each failure up to MaxBackoff.
func (q *Queue) backoffOf(e *Entry) time.Duration {
	count := e.Misses
	if e.Errors > 0 {
		count = e.Errors
	}
	if count == 0 {
		return 0
	}
	d := q.InitialBackoff
	for range count - 1 {
		if d *= 2; d >= q.MaxBackoff {
			return q.MaxBackoff
		}
	}
	return min(d, q.MaxBackoff)
}

// Happened takes in a cluster event and wakes every Pod it may help.
func (q *Queue) Happened(ev Event, now time.Time) []Move {
	if !q.ofInterest(ev) {
		return nil
	}
	q.flight.note(ev)
	var moves []Move
	for _, e := range q.parkedInOrder() {
		if e.Place == Gated {
			if registered(e.gatingEvents, ev.ClusterEvent) && q.gate(e) == nil {
				moves = append(moves, q.put(e, Active, wish{cause: ev.Label(), about: ev.About()}))
			}
			continue
		}
		if worth, by := q.worth(e, ev); worth != leave {
			moves = append(moves, q.wake(e, wish{worth, ev.Label(), by, ev.About()}, now))
		}
	}
	return moves
}

// Activate moves Pods to active, whatever they wait for but gates; those in flight are moved when they come back.
func (q *Queue) Activate(uids []types.UID, now time.Time) []Move {
	var moves []Move
	for _, uid := range uids {
		if q.flight.has(uid) {
			q.flight.note(Event{ClusterEvent: framework.ClusterEvent{Resource: framework.WildCard, ActionType: framework.All, CustomLabel: CauseActivation}})
			continue
		}
		if e := q.all[uid]; e != nil && e.Place != Active {
			moves = append(moves, q.put(e, Active, wish{cause: CauseActivation}))
		}
	}
	return moves
}

// Flush moves Pods whose time has come: back-off over, or unschedulable for MaxParked.
func (q *Queue) Flush(now time.Time) []Move {
	var moves []Move
	for len(q.backoff.list) > 0 && !q.backoff.list[0].BackoffUntil.After(now) {
		moves = append(moves, q.put(q.backoff.list[0], Active, wish{cause: CauseBackoff}))
	}
	for _, e := range q.parkedInOrder() {
		if now.Sub(e.Since) >= q.MaxParked && (e.Place != Gated || q.gate(e) == nil) {
			moves = append(moves, q.wake(e, wish{worth: later, cause: CauseTimeout}, now))
		}
	}
	return moves
}

// Wake is when Flush has something to do next; zero when nothing waits for time.
func (q *Queue) Wake() time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if len(q.backoff.list) > 0 {
		earlier(q.backoff.list[0].BackoffUntil)
	}
	for _, e := range q.parked {
		if e.Place == Unschedulable {
			earlier(e.Since.Add(q.MaxParked))
		}
	}
	return at
}
