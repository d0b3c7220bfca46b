package queue

import (
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
	Less           framework.LessFunc                // the active order, and that among the heads of lanes
	Orders         map[string]Order                  // by scheduler name: profiles that sort in another way; each order has a lane of its own
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

	Ignored bool // the Pod stays: the plugin (By) does not think that the event helps. Told once for each plugin and kind of event
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
	active  lanes
	backoff lanes // refused by a plugin
	errors  lanes // failed by an error: these are not tried before their time
	parked  parked
	all     map[types.UID]*Entry // all but those in flight
	flight  flight
	asked   framework.ClusterEvent // that a hint was asked about last
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
	q := &Queue{Options: o, parked: newParked(), all: map[types.UID]*Entry{}, flight: newFlight()}
	common := func(a, b *Entry) bool { return o.Less(a, b) }
	lane := func(e *Entry) Order {
		if own, ok := o.Orders[e.Pod().Spec.SchedulerName]; ok {
			return own
		}
		return Order{Less: o.Less}
	}
	q.active = lanes{lane: lane, common: common, heaps: map[string]*heapOf{}}
	q.backoff = lanes{lane: lane, wrap: byWindow, common: byWindow(common), heaps: map[string]*heapOf{}}
	q.errors = lanes{lane: lane, wrap: byWindow, common: byWindow(common), heaps: map[string]*heapOf{}}
	return q
}

// byWindow puts the end of the back-off before another order.
func byWindow(less func(a, b *Entry) bool) func(a, b *Entry) bool {
	return func(a, b *Entry) bool {
		if x, y := a.BackoffUntil.Truncate(backoffWindow), b.BackoffUntil.Truncate(backoffWindow); !x.Equal(y) {
			return x.Before(y)
		}
		return less(a, b)
	}
}

// backoffs is the queue a Pod in back-off stands in.
func (q *Queue) backoffs(e *Entry) *lanes {
	if e.Errors > 0 {
		return &q.errors
	}
	return &q.backoff
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
		q.active.fix(e)
	case Backoff:
		q.backoffs(e).fix(e)
	case Gated:
		if len(changes) > 0 && q.opens(e) {
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
	e := q.active.first()
	if e == nil {
		e = q.backoff.first() // idling would help nobody
	}
	if e == nil {
		return nil
	}
	q.board(e, now)
	return e
}

// Take takes a Pod out of its turn, whatever it waits for but gates: its group is tried now. nil when it does not wait here. Done must be called as after Pop.
func (q *Queue) Take(uid types.UID, now time.Time) *Entry {
	e := q.all[uid]
	if e == nil || e.Place == Gated || q.flight.has(uid) {
		return nil
	}
	q.board(e, now)
	return e
}

// board puts an entry into flight.
func (q *Queue) board(e *Entry, now time.Time) {
	q.lift(e)
	delete(q.all, e.Pod().UID)
	e.Place = InFlight
	e.Attempts++
	if e.First == nil {
		e.First = &now
	}
	q.flight.begin(e.Pod().UID)
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
	e.BackoffUntil, e.ignored = now.Add(q.backoffOf(e)), nil
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
	for _, e := range q.touched(ev) {
		if e.Place == Gated {
			if !registered(e.gatingEvents, ev.ClusterEvent) {
				continue
			}
			if w := (wish{cause: ev.Label(), about: ev.About()}); q.opens(e) {
				moves = append(moves, q.put(e, Active, w))
			}
			continue
		}
		worth, by := q.worth(e, ev)
		switch {
		case worth != leave:
			moves = append(moves, q.wake(e, wish{worth, ev.Label(), by, ev.About()}, now))
		case by != "" && e.firstIgnored(by, ev.Label()):
			moves = append(moves, Move{Entry: e, To: Unschedulable, Cause: ev.Label(), By: by, About: ev.About(), Ignored: true})
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
	for _, l := range []*lanes{&q.backoff, &q.errors} {
		for e := l.first(); e != nil && !e.BackoffUntil.After(now); e = l.first() {
			moves = append(moves, q.put(e, Active, wish{cause: CauseBackoff}))
		}
	}
	if len(q.parked.all) == 0 || now.Before(q.parked.due) {
		return moves
	}
	q.parked.due = time.Time{}
	for _, e := range q.parked.everyone() {
		if at := e.due(q.MaxParked); at.After(now) {
			if q.parked.due.IsZero() || at.Before(q.parked.due) {
				q.parked.due = at
			}
			continue
		}
		if e.checked = now; e.Place != Gated || q.opens(e) {
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
	for _, l := range []*lanes{&q.backoff, &q.errors} {
		if e := l.first(); e != nil {
			earlier(e.BackoffUntil)
		}
	}
	if len(q.parked.all) > 0 {
		earlier(q.parked.due)
	}
	return at
}
