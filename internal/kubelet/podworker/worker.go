package podworker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/reason"
)

// worker is the life of one Pod. Fields below mu are read by others; all else belongs to run's goroutine.
type worker struct {
	pool *Pool
	uid  types.UID
	name types.NamespacedName
	ref  journal.Ref
	wish atomic.Pointer[Wish]
	bell chan struct{} // capacity one: many rings, one look
	why  atomic.Int32  // rung bits since the last look
	rest chan struct{} // closed when nothing of the Pod runs any more and nothing will

	life   life
	steps  steps
	looks  int         // that were put into the journal
	ending atomic.Bool // the last action of the plan is under way, alone starts something, and does nothing after that
	mu     sync.Mutex
	seen   View
}

// rung says why the bell rang.
type rung = int32

const (
	wished  rung = 1 << iota // a wish came
	looked                   // the runtime or a probe has something new
	objects                  // an API object that the Pod refers to changed, or a token grew old
	began                    // the runtime has made or started something, which only the worker does
)

// onShow is what the Pod's volumes show of objects.
type onShow struct {
	stale bool    // they have to be brought up to date
	of    *v1.Pod // whose labels and annotations they show
}

// life is what the worker knows of its Pod.
type life struct {
	seen    podplan.Observed
	fresh   bool // seen is the runtime's newest state, as far as was rung
	facts   podplan.Facts
	refusal *reason.Refusal
	tries   map[string]podplan.Try
	hooking map[string]bool
	said    map[string]bool          // facts of the last plan that were put
	waits   map[string]podstatus.Why // why containers do not run
	waitOf  map[string]string        // id of the container that is said of; empty for none
	told    told
	ends    ends
	size    size
	room    []<-chan struct{} // closed when the Pods that had to go for this one have ended
	shown   onShow
	over    bool // the plan is done: nothing is left to do for this wish
}

// ends is what is known of how containers came to end.
type ends struct {
	self  bool            // this very look found that the last of them have ended by themselves
	last  bool            // the Pod's last container was stopped for its health
	late  bool            // the last phase is told only after this very look: what the kubelet itself stopped is shown to have ended first
	again map[string]bool // ids of containers that were stopped to be started again however they end
	held  map[string]bool // ids of containers of which it was told that they back off, when they were stopped

	turning map[string]podplan.Container // what the plan under way stops and starts again, by id, as it ran
	health  map[string]podplan.Health    // of the last decision
}

func newWorker(p *Pool, n Wish) *worker {
	w := &worker{
		pool: p, uid: n.Pod.UID, name: types.NamespacedName{Namespace: n.Pod.Namespace, Name: n.Pod.Name},
		ref:  journal.Ref{Namespace: n.Pod.Namespace, Name: n.Pod.Name, UID: string(n.Pod.UID)},
		bell: make(chan struct{}, 1), rest: make(chan struct{}),
		life: life{tries: map[string]podplan.Try{}, ends: ends{again: map[string]bool{}, held: map[string]bool{}}, hooking: map[string]bool{}, said: map[string]bool{}},
	}
	w.wish.Store(&n)
	w.seen = View{Pod: n.Pod, Source: n.Source}
	w.ring(wished)
	return w
}

// tell merges a wish into the one there is.
func (w *worker) tell(n Wish) {
	for old := w.wish.Load(); ; old = w.wish.Load() {
		merged := tighten(*old, n)
		if w.wish.CompareAndSwap(old, &merged) {
			break
		}
	}
	w.ring(wished)
}

func (w *worker) ring(why rung) {
	w.why.Or(why)
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

func (w *worker) view() View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// run lives the Pod's life: look, decide, tell, act; sleep when there is nothing to do.
func (w *worker) run(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pod", klog.KRef(w.name.Namespace, w.name.Name), "podUID", w.uid)
	ctx = klog.NewContext(ctx, log)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		wish := w.wish.Load()
		plan := w.decide(ctx, wish)
		if w.life.over && w.leaves(wish) {
			return
		}
		if len(plan.Do) > 0 {
			w.do(ctx, wish, plan)
			continue
		}
		if wake := w.wake(plan); wake > 0 || !plan.Wake.IsZero() {
			timer.Reset(wake)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-w.bell:
			w.heed(false)
		}
	}
}

// wake is how long the worker sleeps when nobody rings: until the plan's time, or its next turn (Deps.Every) when that comes first; 0 for neither.
func (w *worker) wake(plan podplan.Plan) time.Duration {
	turn := wait.Jitter(w.pool.d.Every, 0.5) // so that not all Pods take their turns at once
	if plan.Wake.IsZero() {
		return turn
	}
	until := max(time.Until(plan.Wake), 0)
	if turn > 0 {
		return min(until, turn)
	}
	return until
}

// heed notes why the bell rang, and returns it. What the last action of a plan begins is looked at when the action is done, which is about to come.
func (w *worker) heed(ending bool) rung {
	why := w.why.Swap(0)
	if ending {
		why &^= began
	}
	if why&(looked|began) != 0 {
		w.life.fresh = false
	}
	w.life.shown.stale = w.life.shown.stale || why&objects != 0
	return why
}

// leaves ends the worker when its Pod is off the node and nobody asks for it any more.
func (w *worker) leaves(wish *Wish) bool {
	if wish.End == nil {
		return false
	}
	w.pool.release(w.name, w.uid)
	w.pool.withdraw(w.uid)
	if !wish.Gone {
		return false // Finish was asked for; the source will say that the Pod is gone
	}
	w.pool.d.Statuses.Drop(w.uid)
	w.pool.d.Probes.Forget(w.uid)
	w.pool.d.Hands.Forget(w.uid)
	w.pool.leave(w)
	return true
}

// put states a fact about the Pod.
func (w *worker) put(f journal.Fact) { w.pool.d.Journal.Put(w.ref, f) }

// pod is the wished Pod with the sizes it was granted and the newest status that was told, so that a decision does not depend on how fast the API is.
func (w *worker) pod(wish *Wish) *v1.Pod {
	pod := w.life.size.granted.Allocated.On(wish.Pod)
	if w.life.told.status == nil {
		return pod
	}
	out := *pod
	out.Status = w.life.told.over(wish.Pod.Status)
	return &out
}
