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
	DefaultInitialBackoff       = time.Second
	DefaultMaxBackoff           = 10 * time.Second
	DefaultMaxUnschedulableTime = 5 * time.Minute // after this an unschedulable Pod is tried again whatever happened

	backoffWindow = time.Second // Pods whose back-off ends in the same window go by the order of activeQ
)

// Options are the rules of a queue.
type Options struct {
	Less framework.LessFunc // the order of activeQ, and that among the heads of heaps
	// by scheduler name: profiles that sort in another way; each order has a heap of its own
	ProfileLess map[string]ProfileLess
	// asked before a Pod goes to activeQ or backoffQ; success or nil lets it in; a nil func lets
	// all in
	PreEnqueue func(p *v1.Pod) *framework.Status
	// by scheduler name: which events may help Pods that a plugin refused
	QueueingHints        map[string][]QueueingHint
	InitialBackoff       time.Duration // 0: DefaultInitialBackoff
	MaxBackoff           time.Duration // 0: DefaultMaxBackoff
	MaxUnschedulableTime time.Duration // 0: DefaultMaxUnschedulableTime
	Log                  logr.Logger   // handed to hint functions
}

// Move says that an entry came to a stage, or (Ignored) why an event left it where it is.
type Move struct {
	Entry  *Entry
	Stage  Stage
	Cause  string // event label as upstream names it: PodAdd, NodeAdd, ScheduleAttemptFailure, …
	Plugin string // plugin whose hint says that the event helps, or whose PreEnqueue refused the Pod
	Object any    // the object the event was about; nil when none

	// the Pod stays unschedulable: the plugin expects nothing of the event; said once for each
	// plugin and event label
	Ignored bool
}

// Causes that are no cluster events.
const (
	CausePodAdd     = "PodAdd"
	CauseFailure    = "ScheduleAttemptFailure"
	CauseBackoff    = "BackoffComplete"
	CauseTimeout    = "UnschedulableTimeout"
	CauseActivation = "ForceActivate"
)

// Queue is the scheduling queue: all Pods that wait for a node.
//
//	Add ──► PreEnqueue ──────► activeQ ──Pop──► in flight ──Done──► assumed, bound, or gone
//	            │ refuses        ▲                  │
//	            ▼                │                  │ AddUnschedulableIfNotPresent:
//	          gated ─────────────┤                  │ the attempt failed
//	            an event opens   │                  ▼
//	            the gate         ├───────── errorBackoffQ   by an error
//	                             │ back-off
//	                             │ is over
//	                             ├───────── backoffQ        a plugin refused it, but a later
//	                             │ back-off    ▲            event may help
//	                             │ is over     │ while the back-off lasts
//	                             └─────────────┴─── unschedulable   a plugin refused it
//	                                           an event may help (queueing hint), Activate, or
//	                                           MaxUnschedulableTime is over
//
// Every move to activeQ or a back-off queue runs PreEnqueue; an entry that it refuses is gated.
// When activeQ is empty, Pop takes from backoffQ rather than idle, never from errorBackoffQ. Events
// that come while Pods are in flight are kept and looked at when they come back.
//
// It has no lock and no clock: the caller serializes all calls, passes the time, and calls Flush
// when NextFlush says so.
type Queue struct {
	Options
	activeQ       profileHeaps
	backoffQ      profileHeaps // refused by a plugin
	errorBackoffQ profileHeaps // failed by an error: these are not tried before their time
	unschedulable unschedulablePods
	entries       map[types.UID]*Entry // all but those in flight
	inFlight      inFlightEvents
	eventInHand   framework.ClusterEvent // that a hint was asked about last
	seq           uint64
}

// New makes an empty queue.
func New(o Options) *Queue {
	if o.InitialBackoff == 0 {
		o.InitialBackoff = DefaultInitialBackoff
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = DefaultMaxBackoff
	}
	if o.MaxUnschedulableTime == 0 {
		o.MaxUnschedulableTime = DefaultMaxUnschedulableTime
	}
	q := &Queue{Options: o, unschedulable: newUnschedulablePods(), entries: map[types.UID]*Entry{},
		inFlight: newInFlightEvents()}
	common := func(a, b *Entry) bool { return o.Less(a, b) }
	orderOf := func(e *Entry) ProfileLess {
		if own, ok := o.ProfileLess[e.Pod().Spec.SchedulerName]; ok {
			return own
		}
		return ProfileLess{Less: o.Less}
	}
	q.activeQ = profileHeaps{profileOf: orderOf, lessAcross: common, heaps: map[string]*entryHeap{}}
	q.backoffQ = profileHeaps{profileOf: orderOf, wrapLess: lessByBackoffWindow,
		lessAcross: lessByBackoffWindow(common),
		heaps:      map[string]*entryHeap{}}
	q.errorBackoffQ = profileHeaps{profileOf: orderOf, wrapLess: lessByBackoffWindow,
		lessAcross: lessByBackoffWindow(common), heaps: map[string]*entryHeap{}}
	return q
}

// lessByBackoffWindow orders by the end of the back-off, in windows of backoffWindow, then by less.
func lessByBackoffWindow(less func(a, b *Entry) bool) func(a, b *Entry) bool {
	return func(a, b *Entry) bool {
		if x, y := a.BackoffExpiration.Truncate(backoffWindow), b.BackoffExpiration.Truncate(backoffWindow); !x.Equal(
			y) {
			return x.Before(y)
		}
		return less(a, b)
	}
}

// backoffQOf is the back-off queue that an entry belongs to.
func (q *Queue) backoffQOf(e *Entry) *profileHeaps {
	if e.ConsecutiveErrors > 0 {
		return &q.errorBackoffQ
	}
	return &q.backoffQ
}

// Add takes in a Pod that waits for a node. A Pod that is known is updated.
func (q *Queue) Add(p *v1.Pod, now time.Time) []Move {
	if q.entries[p.UID] != nil || q.inFlight.has(p.UID) {
		return q.Update(nil, p, now)
	}
	info, _ := snapshot.NewPodInfo(p) // an affinity term that cannot be read is reported when the Pod is scheduled
	q.seq++
	e := &Entry{Info: info, Timestamp: now, AddedAt: now, seq: q.seq, UnschedulablePlugins: sets.Set[string]{},
		PendingPlugins: sets.Set[string]{}}
	q.entries[p.UID] = e
	return []Move{q.moveTo(e, Active, moveRequest{cause: CausePodAdd})}
}

// Update takes in a changed Pod that waits for a node; old may be nil. The change may move the Pod
// itself. Of a Pod in flight the change is kept as an event.
func (q *Queue) Update(old, p *v1.Pod, now time.Time) []Move {
	changes := PodSchedulingPropertiesChange(framework.TargetPod, old, p)
	if q.inFlight.has(p.UID) {
		for _, c := range changes {
			q.inFlight.addEvent(Event{c, old, p})
		}
		return nil
	}
	e := q.entries[p.UID]
	if e == nil {
		return q.Add(p, now)
	}
	e.Info, _ = snapshot.NewPodInfo(p)
	switch e.Stage {
	case Active:
		q.activeQ.fix(e)
	case Backoff:
		q.backoffQOf(e).fix(e)
	case Gated:
		if len(changes) > 0 && q.isUngated(e) {
			return []Move{q.moveTo(e, Active, moveRequest{cause: changes[0].Label()})}
		}
	case Unschedulable:
		for _, c := range changes {
			if w, by := q.runQueueingHints(e, Event{c, old, p}); w != queueSkip {
				return []Move{q.moveToActiveOrBackoff(e, moveRequest{w, c.Label(), by, nil}, now)}
			}
		}
	}
	return nil
}

// Delete forgets a Pod that does not wait for a node any more. Pods in flight are not touched: Done
// ends their flight.
func (q *Queue) Delete(uid types.UID) {
	e := q.entries[uid]
	if e == nil {
		return
	}
	q.removeFromStage(e)
	delete(q.entries, uid)
}

// Pop takes the next entry; nil when there is none to try now. The Pod is in flight until Done or
// AddUnschedulableIfNotPresent is called for it, exactly once.
func (q *Queue) Pop(now time.Time) *Entry {
	e := q.activeQ.peek()
	if e == nil {
		e = q.backoffQ.peek() // better than to idle
	}
	if e == nil {
		return nil
	}
	q.markInFlight(e, now)
	return e
}

// PopPod takes the entry of a Pod out of its turn, whatever it waits for but gates: its PodGroup is
// scheduled now. nil when it does not wait here. The Pod is in flight, as after Pop.
func (q *Queue) PopPod(uid types.UID, now time.Time) *Entry {
	e := q.entries[uid]
	if e == nil || e.Stage == Gated || q.inFlight.has(uid) {
		return nil
	}
	q.markInFlight(e, now)
	return e
}

// markInFlight moves an entry out of the queue and begins to keep events for it.
func (q *Queue) markInFlight(e *Entry, now time.Time) {
	q.removeFromStage(e)
	delete(q.entries, e.Pod().UID)
	e.Stage = InFlight
	e.Attempts++
	if e.InitialAttemptTimestamp == nil {
		e.InitialAttemptTimestamp = &now
	}
	q.inFlight.addPod(e.Pod().UID)
}

// Done ends the flight of a Pod that was assumed or bound, or is gone. A second call has no effect.
func (q *Queue) Done(uid types.UID) { q.inFlight.removePod(uid) }

// Failure names the plugins that refused a Pod (UnschedulablePlugins) or asked it to wait
// (PendingPlugins); with neither set the attempt failed by an error.
type Failure struct{ UnschedulablePlugins, PendingPlugins sets.Set[string] }

// AddUnschedulableIfNotPresent takes a popped entry back whose Pod got no node, and ends its
// flight. It goes to the unschedulable pods; after an error, or when an event of the meantime may
// help, to backoffQ or activeQ. No move when the Pod was added again meanwhile.
func (q *Queue) AddUnschedulableIfNotPresent(e *Entry, f Failure, now time.Time) []Move {
	defer q.Done(e.Pod().UID)
	if q.entries[e.Pod().UID] != nil {
		return nil // added again meanwhile
	}
	e.UnschedulablePlugins, e.PendingPlugins, e.Timestamp = f.UnschedulablePlugins, f.PendingPlugins, now
	switch {
	case len(f.UnschedulablePlugins)+len(f.PendingPlugins) == 0:
		e.ConsecutiveErrors++
	default:
		e.ConsecutiveErrors = 0
		if len(f.UnschedulablePlugins) > 0 {
			e.UnschedulableCount++
		}
	}
	e.BackoffExpiration, e.reportedIgnored = now.Add(q.backoffDuration(e)), nil
	q.entries[e.Pod().UID] = e
	w, rejected := moveRequest{hint: queueSkip, cause: CauseFailure}, true
	if len(f.UnschedulablePlugins)+len(f.PendingPlugins) == 0 {
		w.hint, rejected = queueAfterBackoff, false
	}
	for _, ev := range q.inFlight.eventsSince(e.Pod().UID) {
		if rejected && ev.isForgottenPod(e.Pod().UID) {
			continue
		}
		if worth, by := q.runQueueingHints(e, ev); worth > w.hint {
			w = moveRequest{worth, ev.Label(), by, ev.Object()}
		}
	}
	return []Move{q.moveToActiveOrBackoff(e, w, now)}
}

// backoffDuration doubles from InitialBackoff with each failure up to MaxBackoff. Failures by
// errors in a row count by themselves.
func (q *Queue) backoffDuration(e *Entry) time.Duration {
	count := e.UnschedulableCount
	if e.ConsecutiveErrors > 0 {
		count = e.ConsecutiveErrors
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

// MoveAllToActiveOrBackoffQueue moves every unschedulable Pod that a cluster event may help by the
// queueing hints of the plugins that refused it, and keeps the event for Pods in flight.
func (q *Queue) MoveAllToActiveOrBackoffQueue(ev Event, now time.Time) []Move {
	if !q.isRegistered(ev) {
		return nil
	}
	q.inFlight.addEvent(ev)
	var moves []Move
	for _, e := range q.concernedEntries(ev) {
		if e.Stage == Gated {
			if !registered(e.gatingEvents, ev.ClusterEvent) {
				continue
			}
			if w := (moveRequest{cause: ev.Label(), object: ev.Object()}); q.isUngated(e) {
				moves = append(moves, q.moveTo(e, Active, w))
			}
			continue
		}
		worth, by := q.runQueueingHints(e, ev)
		switch {
		case worth != queueSkip:
			moves = append(moves, q.moveToActiveOrBackoff(e, moveRequest{worth, ev.Label(), by, ev.Object()}, now))
		case by != "" && e.firstIgnored(by, ev.Label()):
			moves = append(moves, Move{Entry: e, Stage: Unschedulable, Cause: ev.Label(), Plugin: by,
				Object: ev.Object(), Ignored: true})
		}
	}
	return moves
}

// Activate moves Pods to activeQ, whatever they wait for but gates; Pods in flight are moved when
// they come back.
func (q *Queue) Activate(uids []types.UID, now time.Time) []Move {
	var moves []Move
	for _, uid := range uids {
		if q.inFlight.has(uid) {
			q.inFlight.addEvent(Event{ClusterEvent: framework.ClusterEvent{Resource: framework.WildCard,
				ActionType: framework.All, CustomLabel: CauseActivation}})
			continue
		}
		if e := q.entries[uid]; e != nil && e.Stage != Active {
			moves = append(moves, q.moveTo(e, Active, moveRequest{cause: CauseActivation}))
		}
	}
	return moves
}

// Flush moves the Pods whose back-off ended by now to activeQ, and those that have been
// unschedulable for MaxUnschedulableTime to activeQ or backoffQ.
func (q *Queue) Flush(now time.Time) []Move {
	var moves []Move
	for _, l := range []*profileHeaps{&q.backoffQ, &q.errorBackoffQ} {
		for e := l.peek(); e != nil && !e.BackoffExpiration.After(now); e = l.peek() {
			moves = append(moves, q.moveTo(e, Active, moveRequest{cause: CauseBackoff}))
		}
	}
	if len(q.unschedulable.all) == 0 || now.Before(q.unschedulable.nextFlush) {
		return moves
	}
	q.unschedulable.nextFlush = time.Time{}
	for _, e := range q.unschedulable.sorted() {
		if at := e.flushTime(q.MaxUnschedulableTime); at.After(now) {
			if q.unschedulable.nextFlush.IsZero() || at.Before(q.unschedulable.nextFlush) {
				q.unschedulable.nextFlush = at
			}
			continue
		}
		if e.gateCheckedAt = now; e.Stage != Gated || q.isUngated(e) {
			moves = append(moves, q.moveToActiveOrBackoff(e, moveRequest{hint: queueAfterBackoff, cause: CauseTimeout},
				now))
		}
	}
	return moves
}

// NextFlush is the earliest time at which Flush moves a Pod; zero when none waits for time.
func (q *Queue) NextFlush() time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for _, l := range []*profileHeaps{&q.backoffQ, &q.errorBackoffQ} {
		if e := l.peek(); e != nil {
			earlier(e.BackoffExpiration)
		}
	}
	if len(q.unschedulable.all) > 0 {
		earlier(q.unschedulable.nextFlush)
	}
	return at
}
