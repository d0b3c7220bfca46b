package scheduler

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/metrics"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/prioritysort"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// calls are the calls that a part makes, in order.
type calls []string

func (c *calls) add(call string) { *c = append(*c, call) }

func (c *calls) want(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := strings.Join(*c, ", "); got != strings.Join(want, ", ") {
		t.Errorf("%s: got the calls %q, want %q", what, got, strings.Join(want, ", "))
	}
	*c = nil
}

// scriptedQueue is a schedulingQueue that gives what next says.
type scriptedQueue struct {
	*calls
	next []popped
}

func (q *scriptedQueue) pop(flush bool) popped {
	q.add(map[bool]string{true: "flush and pop", false: "pop"}[flush])
	out := q.next[0]
	q.next = q.next[1:]
	return out
}

func (q *scriptedQueue) done(p *v1.Pod)           { q.add("done " + p.Name) }
func (q *scriptedQueue) isAssumed(types.UID) bool { return false }

// notedBindings are bindings that only note what is asked of them.
type notedBindings struct{ *calls }

func (b notedBindings) flush()              { b.add("write bindings") }
func (b notedBindings) flushLate(time.Time) { b.add("write late bindings") }
func (b notedBindings) start(context.Context, *schedulingAttempt, frameworkruntime.PodCycle, journal.Bound) {
	b.add("bind")
}

func entryOf(name string) *queue.Entry {
	info, _ := snapshot.NewPodInfo(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		UID: types.UID(name)}})
	return &queue.Entry{Info: info}
}

// While Pods come, bindings are gathered; before the scheduling goroutine waits they are written.
// When the time that the queue named is over, the next pop moves Pods whose time it is.
func TestBindingsAreWrittenBeforeTheCycleWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		wake := make(chan struct{}, 1)
		q := &scriptedQueue{calls: &c, next: []popped{{entry: entryOf("web")}, {wake: time.Now().Add(time.Second)},
			{}, {entry: entryOf("db")}}}
		s := &schedulingCycle{queue: q, bindings: notedBindings{&c}, wake: wake}
		if e := s.nextPod(t.Context()); e == nil || e.Pod().Name != "web" {
			t.Errorf("got %v, want the Pod web", e)
		}
		c.want(t, "with a Pod", "pop", "write late bindings")
		if e := s.nextPod(t.Context()); e != nil {
			t.Errorf("got %v from an empty queue, want nothing", e)
		}
		c.want(t, "without a Pod", "pop", "write bindings")
		wake <- struct{}{}
		s.nextPod(t.Context())
		c.want(t, "after the time that the queue named", "flush and pop", "write bindings")
		s.nextPod(t.Context())
		c.want(t, "after an event", "pop", "write late bindings")
	})
}

// goneQueue is a failureQueue from whose cluster every Pod has gone.
type goneQueue struct{ *calls }

func (q goneQueue) requeue(a *schedulingAttempt, f failure, _ func(*v1.Pod) *v1.Pod) *v1.Pod {
	q.add("requeue " + a.pod().Name + ", nominated to " + *f.nominatedNode + ".")
	return nil
}

// notedStatuses are podStatuses that only note the update.
type notedStatuses struct{ *calls }

func (s notedStatuses) Put(u bind.StatusUpdate) { s.add("status of " + u.Pod.Name) }

// notedJournal is a journal.Sink that only notes the facts.
type notedJournal struct{ *calls }

func (j notedJournal) Put(_ journal.Ref, f journal.Fact) { j.add(f.Line()) }

// A failed binding is stated once and ends the nomination; a Pod that is gone gets no status.
func TestFailedBindingOfAPodThatIsGone(t *testing.T) {
	var c calls
	m := metrics.New(nil, false)
	h := newFailures(goneQueue{&c}, notedStatuses{&c}, newAttemptFacts(notedJournal{&c}, bind.APIWriter{}, m.Attempts),
		nil)
	a := newAttempt(entryOf("web"), &frameworkruntime.Profile{Name: "default-scheduler"})
	f := &bind.BindFailure{Point: "PreBind", Status: framework.NewStatus(framework.Error, "disk is gone").WithPlugin(
		"P")}
	cycle := frameworkruntime.PodCycle{Pod: bind.WithNodeName(a.pod(), "n1"), Node: "n1"}
	h.handleBindingCycleError(t.Context(), a, cycle, f)
	want := journal.BindFailed{Node: "n1", Point: "PreBind", Plugin: "P", Error: "disk is gone"}.Line()
	c.want(t, "failure", want, "requeue web, nominated to .")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	h.handleBindingCycleError(ended, a, cycle, f)
	c.want(t, "failure while shutting down")
}

// A Pod whose attempt failed goes back to the queue, unless it has a node by now, or another has
// taken its name.
//
// row: BND-07
func TestAPodThatIsBoundIsNotPutBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		now     *v1.Pod
		waiting int
	}{
		{"as it was", &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web"}}, 1},
		{"with a node", &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web"},
			Spec: v1.PodSpec{NodeName: "n1"}}, 0},
		{"another", &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "other"}}, 0},
		{"gone", nil, 0},
	} {
		s := newCacheAndQueue(nil, notedJournal{new(calls)}, metrics.New(nil, false))
		s.queue = queue.New(queue.Options{Less: prioritysort.New().Less})
		s.queue.Add(entryOf("web").Pod(), s.now())
		a := newAttempt(s.queue.Pop(s.now()), &frameworkruntime.Profile{Name: "default-scheduler"})
		got := s.requeue(a, failure{}, func(*v1.Pod) *v1.Pod { return c.now })
		if n := len(s.queue.PendingPods()); n != c.waiting || (got != nil) != (c.waiting > 0) {
			t.Errorf("%s: got %v and %d Pods in the queue, want %d", c.name, got, n, c.waiting)
		}
	}
}

// Goroutines are waited for, but no longer than the timeout.
func TestGoroutinesAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGoroutines(time.Minute, metrics.New(nil, false))
		release := g.hold()
		g.start("binding", func() { time.Sleep(time.Second) })
		time.AfterFunc(2*time.Second, release)
		began := time.Now()
		g.wait(t.Context())
		if got := time.Since(began); got != 2*time.Second {
			t.Errorf("waited %v for work of a second and a hold of two, want 2s", got)
		}
		hung := make(chan struct{})
		g.start("binding", func() { <-hung })
		began = time.Now()
		g.wait(t.Context())
		if got := time.Since(began); got != time.Minute {
			t.Errorf("waited %v for a goroutine that hangs, want the timeout of 1m", got)
		}
		close(hung)
	})
}
