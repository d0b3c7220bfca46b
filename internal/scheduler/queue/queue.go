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

	backoffWindow = time.Second // Pods whose back-off ends in the same window go by the active order
)

// Options are the rules of a queue.
type Options struct {
	Less framework.LessFunc // the active order, and that among the heads of lanes
	// by scheduler name: profiles that sort in another way; each order has a lane of its own
	ProfileLess map[string]ProfileLess
	// asked before a Pod goes to active or backoff; nil: always open
	PreEnqueue           func(p *v1.Pod) *framework.Status
	QueueingHints        map[string][]QueueingHint // by scheduler name: which events wake whom
	InitialBackoff       time.Duration             // 0: DefaultInitialBackoff
	MaxBackoff           time.Duration             // 0: DefaultMaxBackoff
	MaxUnschedulableTime time.Duration             // 0: DefaultMaxUnschedulableTime
	Log                  logr.Logger               // handed to hint functions
}

// Move says that a Pod was put somewhere.
type Move struct {
	Entry  *Entry
	Stage  Stage
	Cause  string // event label as upstream names it: PodAdd, NodeAdd, ScheduleAttemptFailure, …
	Plugin string // plugin whose hint found the event helpful, or whose gate is closed
	Object any    // the object the event was about; nil when none

	// the Pod stays: the plugin (By) does not think that the event helps. Told once for each plugin
	// and kind of event
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

// Queue holds all Pods that want a node.
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
	lane := func(e *Entry) ProfileLess {
		if own, ok := o.ProfileLess[e.Pod().Spec.SchedulerName]; ok {
			return own
		}
		return ProfileLess{Less: o.Less}
	}
	q.activeQ = profileHeaps{profileOf: lane, lessAcross: common, heaps: map[string]*entryHeap{}}
	q.backoffQ = profileHeaps{profileOf: lane, wrapLess: lessByBackoffWindow, lessAcross: lessByBackoffWindow(common),
		heaps: map[string]*entryHeap{}}
	q.errorBackoffQ = profileHeaps{profileOf: lane, wrapLess: lessByBackoffWindow,
		lessAcross: lessByBackoffWindow(common), heaps: map[string]*entryHeap{}}
	return q
}

// lessByBackoffWindow puts the end of the back-off before another order.
func lessByBackoffWindow(less func(a, b *Entry) bool) func(a, b *Entry) bool {
	return func(a, b *Entry) bool {
		if x, y := a.BackoffExpiration.Truncate(backoffWindow), b.BackoffExpiration.Truncate(backoffWindow); !x.Equal(
			y) {
			return x.Before(y)
		}
		return less(a, b)
	}
}

// backoffQOf is the queue a Pod in back-off stands in.
func (q *Queue) backoffQOf(e *Entry) *profileHeaps {
	if e.ConsecutiveErrors > 0 {
		return &q.errorBackoffQ
	}
	return &q.backoffQ
}

// Add takes in a Pod that wants a node. A Pod already known is updated.
func (q *Queue) Add(p *v1.Pod, now time.Time) []Move {
	if q.entries[p.UID] != nil || q.inFlight.has(p.UID) {
		return q.Update(nil, p, now)
	}
	info, _ := snapshot.NewPodInfo(p) // an affinity term that cannot be read is reported when the Pod is judged
	q.seq++
	e := &Entry{Info: info, Timestamp: now, AddedAt: now, seq: q.seq, UnschedulablePlugins: sets.Set[string]{},
		PendingPlugins: sets.Set[string]{}}
	q.entries[p.UID] = e
	return []Move{q.moveTo(e, Active, moveRequest{cause: CausePodAdd})}
}

// Update takes in a change of a Pod that wants a node; old may be nil. It may wake the Pod itself.
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

// Delete forgets a Pod.
func (q *Queue) Delete(uid types.UID) {
	e := q.entries[uid]
	if e == nil {
		return
	}
	q.removeFromStage(e)
	delete(q.entries, uid)
}

// Pop takes the next Pod; nil when nobody may be tried now. Done must be called when its fate is
// known.
func (q *Queue) Pop(now time.Time) *Entry {
	e := q.activeQ.peek()
	if e == nil {
		e = q.backoffQ.peek() // idling would help nobody
	}
	if e == nil {
		return nil
	}
	q.markInFlight(e, now)
	return e
}

// PopPod takes a Pod out of its turn, whatever it waits for but gates: its group is tried now. nil
// when it does not wait here. Done must be called as after Pop.
func (q *Queue) PopPod(uid types.UID, now time.Time) *Entry {
	e := q.entries[uid]
	if e == nil || e.Stage == Gated || q.inFlight.has(uid) {
		return nil
	}
	q.markInFlight(e, now)
	return e
}

// markInFlight puts an entry into flight.
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

// Done ends a Pod's flight: it was bound, is gone, or came back.
func (q *Queue) Done(uid types.UID) { q.inFlight.removePod(uid) }

// Failure is why an attempt failed; with neither set it was an error.
type Failure struct{ UnschedulablePlugins, PendingPlugins sets.Set[string] }

// AddUnschedulableIfNotPresent takes back a popped Pod that could not be placed. Events of the
// meantime may wake it at once. It ends the flight.
func (q *Queue) AddUnschedulableIfNotPresent(e *Entry, f Failure, now time.Time) []Move {
	defer q.Done(e.Pod().UID)
	if q.entries[e.Pod().UID] != nil {
		return nil // made anew meanwhile
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
	w := moveRequest{hint: queueSkip, cause: CauseFailure}
	if len(f.UnschedulablePlugins)+len(f.PendingPlugins) == 0 {
		w.hint = queueAfterBackoff
	}
	for _, ev := range q.inFlight.eventsSince(e.Pod().UID) {
		if worth, by := q.runQueueingHints(e, ev); worth > w.hint {
			w = moveRequest{worth, ev.Label(), by, ev.Object()}
		}
	}
	return []Move{q.moveToActiveOrBackoff(e, w, now)}
}

// backoffDuration doubles from InitialBackoff with each failure up to MaxBackoff.
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

// MoveAllToActiveOrBackoffQueue takes in a cluster event and wakes every Pod it may help.
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

// Activate moves Pods to active, whatever they wait for but gates; those in flight are moved when
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

// Flush moves Pods whose time has come: back-off over, or unschedulable for MaxUnschedulableTime.
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

// NextFlush is when Flush has something to do next; zero when nothing waits for time.
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
