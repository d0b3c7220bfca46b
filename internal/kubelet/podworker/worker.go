package podworker

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/allocation"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podview"
	"github.com/gantry-project/gantry/internal/kubelet/podworker/mailbox"
)

// worker keeps one Pod as its newest update says. Others talk to it through the mailbox and read
// what it published; all else belongs to the goroutine of run.
//
//	       ┌────────────────────── a plan with actions ◀──────────────────────┐
//	       ▼                                                                  │
//	execute: podactions in a goroutine of its own                             │
//	  │  wake-up: Progressed, the status follows                              │
//	  │  stricter update: what is under way is cancelled                      │
//	  ▼                                                                       │
//	decide: observe the runtime ─▶ learn facts ─▶ refresh volumes ─▶ podplan.Next
//	  ▲                           (admission, resize, stop)                   │
//	  │                                                                       ▼
//	  └── wake-up, or the plan's time, or ResyncInterval ◀── sleep ◀── nothing to do
//	                                                           └─▶ done and gone: the worker ends
type worker struct {
	pool       *Pool
	ref        journal.Ref
	uid        types.UID
	mailbox    *mailbox.Mailbox[UpdatePodOptions]
	allocation *allocation.PodAllocation
	published  publishedView

	runtime   observation
	facts     podplan.Facts
	admission admission
	tries     podplan.Tries
	health    map[string]podplan.Health // at the last decision
	lastPlan  planProgress
	view      podview.View
	volumes   volumeContent
	done      bool // the last plan was: nothing is left to do for this update
}

// planProgress is how far the last plan was carried out.
type planProgress struct {
	done         []podplan.Action // until the runtime has been looked at after it
	runningHooks map[string]bool  // containers whose postStart hook has not ended, while it is carried out
}

// observation is what the runtime has of the Pod.
type observation struct {
	seen      podplan.Observed
	fresh     bool // nothing has happened in the runtime since, as far as the worker was woken
	journaled int  // looks that were put into the journal
}

// volumeContent is what the Pod's volumes show of objects.
type volumeContent struct {
	stale    bool    // something changed that they show
	refresh  bool    // they have to be brought up to date once the Pod is Active
	shownFor *v1.Pod // whose labels and annotations they show
}

// publishedView is what others see of the Pod.
type publishedView struct {
	terminated chan struct{} // closed when nothing of the Pod runs any more and nothing will

	mu   sync.Mutex
	view View
}

func (p *publishedView) get() View {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view
}

func (p *publishedView) change(f func(v *View)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.view)
}

// wakeReason says why a worker is woken.
type wakeReason = int32

const (
	wakeUpdate  wakeReason = 1 << iota // an update came
	wakeRuntime                        // the runtime or a probe has something new
	wakeObjects                        // an API object that the Pod refers to changed, or a token grew old
	wakeStarted                        // the runtime has made or started something, which only the worker does
)

// newWorker makes a worker that does not run yet; n is its first update.
func newWorker(p *Pool, n UpdatePodOptions) *worker {
	w := &worker{
		pool: p, uid: n.Pod.UID,
		ref:       journal.Ref{Namespace: n.Pod.Namespace, Name: n.Pod.Name, UID: string(n.Pod.UID)},
		mailbox:   mailbox.New(n, mergeUpdates),
		published: publishedView{terminated: make(chan struct{}), view: View{Pod: n.Pod, Source: n.Source}},
		tries:     podplan.Tries{}, lastPlan: planProgress{runningHooks: map[string]bool{}},
	}
	w.allocation = p.allocations.NewPod(w.ref, w.uid, w)
	w.mailbox.Wake(wakeUpdate)
	return w
}

func (w *worker) name() types.NamespacedName {
	return types.NamespacedName{Namespace: w.ref.Namespace, Name: w.ref.Name}
}

// run is the worker's goroutine. It returns when ctx ends, or when nothing of the Pod is left and
// nobody asks for it.
func (w *worker) run(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pod", klog.KRef(w.ref.Namespace, w.ref.Name), "podUID", w.uid)
	ctx = klog.NewContext(ctx, log)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		desired := w.mailbox.Value()
		plan := w.decide(ctx, desired)
		if w.done && w.removeIfGone(desired) {
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
		case <-w.mailbox.Wakeups():
			w.takeWakeReasons(false)
		}
	}
}

// wakeAfter is how long the worker sleeps when nobody wakes it: until the plan's time, or its next
// turn (Deps.ResyncInterval) when that comes first; 0 for neither.
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

// takeWakeReasons notes why the worker was woken, and returns it. ending tells that the last action
// of a plan is under way: what that starts is looked at when the action is done, which is about to
// come.
func (w *worker) takeWakeReasons(ending bool) wakeReason {
	why := w.mailbox.TakeReasons()
	if ending {
		why &^= wakeStarted
	}
	if why&(wakeRuntime|wakeStarted) != 0 {
		w.runtime.fresh = false
	}
	w.volumes.stale = w.volumes.stale || why&wakeObjects != 0
	return why
}

// removeIfGone ends the worker when its Pod is off the node and nobody asks for it any more.
func (w *worker) removeIfGone(desired *UpdatePodOptions) bool {
	if desired.Termination == nil {
		return false
	}
	w.pool.releaseName(w.name(), w.uid)
	w.pool.allocations.Forget(w.uid)
	if !desired.Gone {
		return false // the source will say that the Pod is gone
	}
	w.pool.d.Statuses.RemoveStatus(w.uid)
	w.pool.d.Probes.Forget(w.uid)
	w.pool.d.Actions.Forget(w.uid)
	w.pool.removeWorker(w)
	return true
}

// pod is the desired Pod with the resources it was allocated and the newest status that was shown.
func (w *worker) pod(desired *UpdatePodOptions) *v1.Pod {
	return w.view.Overlay(w.allocation.ApplyTo(desired.Pod))
}
