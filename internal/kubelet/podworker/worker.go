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

// worker is the life of one Pod. Fields below mu are read by others; all else belongs to run's
// goroutine.
type worker struct {
	pool        *Pool
	uid         types.UID
	name        types.NamespacedName
	ref         journal.Ref
	desired     atomic.Pointer[UpdatePodOptions]
	wakeup      chan struct{} // capacity one: many rings, one look
	wakeReasons atomic.Int32  // rung bits since the last look
	terminated  chan struct{} // closed when nothing of the Pod runs any more and nothing will

	state                 podState
	steps                 steps
	journaledObservations int // that were put into the journal
	// the last action of the plan is under way, alone starts something, and does nothing after that
	lastAction atomic.Bool
	mu         sync.Mutex
	published  View
}

// wakeReason says why the bell rang.
type wakeReason = int32

const (
	wakeUpdate  wakeReason = 1 << iota // a wish came
	wakeRuntime                        // the runtime or a probe has something new
	wakeObjects                        // an API object that the Pod refers to changed, or a token grew old
	wakeStarted                        // the runtime has made or started something, which only the worker does
)

// volumeContent is what the Pod's volumes show of objects.
type volumeContent struct {
	stale    bool    // they have to be brought up to date
	shownFor *v1.Pod // whose labels and annotations they show
}

// podState is what the worker knows of its Pod.
type podState struct {
	observed            podplan.Observed
	fresh               bool // seen is the runtime's newest state, as far as was rung
	facts               podplan.Facts
	refusal             *reason.Refusal
	tries               map[string]podplan.Try
	runningHooks        map[string]bool
	reportedFacts       map[string]bool                    // facts of the last plan that were put
	waitingReasons      map[string]podstatus.WaitingReason // why containers do not run
	waitingContainerIDs map[string]string                  // id of the container that is said of; empty for none
	reported            reportedStatus
	exits               exitTracking
	allocation          allocationState
	victims             []<-chan struct{} // closed when the Pods that had to go for this one have ended
	volumeContent       volumeContent
	done                bool // the plan is done: nothing is left to do for this wish
}

// exitTracking is what is known of how containers came to end.
type exitTracking struct {
	selfTerminated      bool // this very look found that the last of them have ended by themselves
	lastContainerKilled bool // the Pod's last container was stopped for its health
	// the last phase is told only after this very look: what the kubelet itself stopped is shown to
	// have ended first
	deferPhase bool
	restarting map[string]bool // ids of containers that were stopped to be started again however they end
	// ids of containers of which it was told that they back off, when they were stopped
	backOffReported map[string]bool

	masked     map[string]podplan.Container // what the plan under way stops and starts again, by id, as it ran
	lastHealth map[string]podplan.Health    // of the last decision
}

func newWorker(p *Pool, n UpdatePodOptions) *worker {
	w := &worker{
		pool: p, uid: n.Pod.UID, name: types.NamespacedName{Namespace: n.Pod.Namespace, Name: n.Pod.Name},
		ref:    journal.Ref{Namespace: n.Pod.Namespace, Name: n.Pod.Name, UID: string(n.Pod.UID)},
		wakeup: make(chan struct{}, 1), terminated: make(chan struct{}),
		state: podState{tries: map[string]podplan.Try{}, exits: exitTracking{restarting: map[string]bool{},
			backOffReported: map[string]bool{}}, runningHooks: map[string]bool{}, reportedFacts: map[string]bool{}},
	}
	w.desired.Store(&n)
	w.published = View{Pod: n.Pod, Source: n.Source}
	w.wake(wakeUpdate)
	return w
}

// update merges a wish into the one there is.
func (w *worker) update(n UpdatePodOptions) {
	for old := w.desired.Load(); ; old = w.desired.Load() {
		merged := mergeUpdates(*old, n)
		if w.desired.CompareAndSwap(old, &merged) {
			break
		}
	}
	w.wake(wakeUpdate)
}

func (w *worker) wake(why wakeReason) {
	w.wakeReasons.Or(why)
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

func (w *worker) view() View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.published
}

// run lives the Pod's life: look, decide, tell, act; sleep when there is nothing to do.
func (w *worker) run(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pod", klog.KRef(w.name.Namespace, w.name.Name), "podUID", w.uid)
	ctx = klog.NewContext(ctx, log)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		desired := w.desired.Load()
		plan := w.decide(ctx, desired)
		if w.state.done && w.removeIfGone(desired) {
			return
		}
		if len(plan.Do) > 0 {
			w.execute(ctx, desired, plan)
			continue
		}
		if wake := w.wakeAfter(plan); wake > 0 || !plan.Wake.IsZero() {
			timer.Reset(wake)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-w.wakeup:
			w.takeWakeReasons(false)
		}
	}
}

// wakeAfter is how long the worker sleeps when nobody rings: until the plan's time, or its next
// turn (Deps.Every) when that comes first; 0 for neither.
func (w *worker) wakeAfter(plan podplan.Plan) time.Duration {
	turn := wait.Jitter(w.pool.d.ResyncInterval, 0.5) // so that not all Pods take their turns at once
	if plan.Wake.IsZero() {
		return turn
	}
	until := max(time.Until(plan.Wake), 0)
	if turn > 0 {
		return min(until, turn)
	}
	return until
}

// takeWakeReasons notes why the bell rang, and returns it. What the last action of a plan begins is
// looked at when the action is done, which is about to come.
func (w *worker) takeWakeReasons(ending bool) wakeReason {
	why := w.wakeReasons.Swap(0)
	if ending {
		why &^= wakeStarted
	}
	if why&(wakeRuntime|wakeStarted) != 0 {
		w.state.fresh = false
	}
	w.state.volumeContent.stale = w.state.volumeContent.stale || why&wakeObjects != 0
	return why
}

// removeIfGone ends the worker when its Pod is off the node and nobody asks for it any more.
func (w *worker) removeIfGone(desired *UpdatePodOptions) bool {
	if desired.Termination == nil {
		return false
	}
	w.pool.releaseName(w.name, w.uid)
	w.pool.removePendingResize(w.uid)
	if !desired.Gone {
		return false // Finish was asked for; the source will say that the Pod is gone
	}
	w.pool.d.Statuses.RemoveStatus(w.uid)
	w.pool.d.Probes.Forget(w.uid)
	w.pool.d.Actions.Forget(w.uid)
	w.pool.removeWorker(w)
	return true
}

// put states a fact about the Pod.
func (w *worker) put(f journal.Fact) { w.pool.d.Journal.Put(w.ref, f) }

// pod is the wished Pod with the sizes it was granted and the newest status that was told, so that
// a decision does not depend on how fast the API is.
func (w *worker) pod(desired *UpdatePodOptions) *v1.Pod {
	pod := w.state.allocation.allocated.Allocated.ApplyTo(desired.Pod)
	if w.state.reported.status == nil {
		return pod
	}
	out := *pod
	out.Status = w.state.reported.overlay(desired.Pod.Status)
	return &out
}
