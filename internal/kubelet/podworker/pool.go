package podworker

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/allocation"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/pod"
)

// Pool holds the workers, one for each Pod's UID. Its methods may be called from any goroutine.
// Make one with New.
type Pool struct {
	d Deps

	mu        sync.Mutex
	ctx       context.Context
	wg        sync.WaitGroup
	workers   map[types.UID]*worker
	names     map[types.NamespacedName]types.UID // who holds a name on this node
	leftovers map[types.UID]leftoverPod          // what an earlier kubelet left, until somebody works for it
	// a static Pod's source has it again while it still leaves the node: it runs again after that
	pendingRestarts map[types.UID]UpdatePodOptions

	sourcesReady bool // all sources have said which Pods they have

	allocations *allocation.Manager
	steps       *stepTracker
}

// New returns a Pool that takes updates; its workers begin with Start.
func New(d Deps) *Pool {
	p := &Pool{d: d, workers: map[types.UID]*worker{}, names: map[types.NamespacedName]types.UID{},
		leftovers: map[types.UID]leftoverPod{}, pendingRestarts: map[types.UID]UpdatePodOptions{},
		steps: newStepTracker(d.Journal)}
	p.allocations = allocation.New(allocation.Deps{Admit: d.Admit, Resize: d.Resize, OtherPods: p.otherPods,
		Store: d.Allocations, Events: d.Events, Journal: d.Journal, Metrics: d.Metrics})
	return p
}

// Start has workers begin; they end with ctx. It is called once; Wait waits for them.
func (p *Pool) Start(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx = ctx
	for _, w := range p.workers {
		p.run(w)
	}
}

// Wait returns when all workers have ended.
func (p *Pool) Wait() { p.wg.Wait() }

func (p *Pool) run(w *worker) {
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		w.run(p.ctx)
	}()
}

// UpdatePod brings an update to its Pod's worker; the first one makes the worker. A Pod that is
// gone and has no worker is ignored.
func (p *Pool) UpdatePod(n UpdatePodOptions) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.workers[n.Pod.UID]
	if w == nil {
		if n.Gone && n.Source != SourceRuntime {
			return
		}
		p.startWorker(n)
		return
	}
	if n.Gone {
		delete(p.pendingRestarts, n.Pod.UID)
	} else if w.mailbox.Value().Gone && pod.IsStatic(n.Pod) {
		p.pendingRestarts[n.Pod.UID] = n
		return
	}
	w.mailbox.Update(n, wakeUpdate)
}

func (p *Pool) startWorker(n UpdatePodOptions) {
	w := newWorker(p, n)
	p.workers[n.Pod.UID] = w
	if l, was := p.leftovers[w.uid]; was && l.source == "" {
		// its sandbox may come even if all that the update wants is its end
		w.facts.UncertainSandbox = podplan.UncertainSandbox{AbandonedAt: l.since}
	}
	delete(p.leftovers, w.uid)
	if _, isHeld := p.names[w.name()]; !isHeld && n.Termination != nil {
		p.names[w.name()] = w.uid // it is not admitted any more, but is there
	}
	if p.ctx != nil {
		p.run(w)
	}
}

// SourceRuntime is the source of Pods that only the runtime has.
const SourceRuntime = "runtime"

// Wake has a Pod's worker look again: something in the runtime or a probe may have changed. False:
// there is no such worker.
func (p *Pool) Wake(uid types.UID) bool { return p.wake(uid, wakeRuntime) }

// WakeForStart is Wake for what only the worker itself does: making and starting. The worker
// ignores it while the very action is about to end.
func (p *Pool) WakeForStart(uid types.UID) bool { return p.wake(uid, wakeStarted) }

// wake has a Pod's worker look again for the reason; false: there is no such worker.
func (p *Pool) wake(uid types.UID, why wakeReason) bool {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w == nil {
		return false
	}
	w.mailbox.Wake(why)
	return true
}

// ObjectsChanged has a Pod's worker bring its volumes up to date: an API object that the Pod refers
// to changed, or one of its tokens grew old.
func (p *Pool) ObjectsChanged(uid types.UID) {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w != nil {
		w.mailbox.Wake(wakeObjects)
	}
}

// TerminatedCh is closed when nothing of the Pod runs any more and nothing will; at once when it is
// not on this node.
func (p *Pool) TerminatedCh(uid types.UID) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[uid]; w != nil {
		return w.published.terminated
	}
	none := make(chan struct{})
	close(none)
	return none
}

// KillPod ends a Pod on behalf of the node: for an eviction, a preemption or a shutdown. False: it
// is not on this node.
func (p *Pool) KillPod(uid types.UID, end podplan.Termination) bool {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w == nil {
		return false
	}
	now := w.mailbox.Value()
	w.mailbox.Update(UpdatePodOptions{Pod: now.Pod, Source: now.Source, Termination: &end}, wakeUpdate)
	return true
}

// IsKnown tells whether there is a worker for the UID.
func (p *Pool) IsKnown(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers[uid] != nil
}

// ShouldPodContentBeRemoved tells whether nobody owns what is on the node's disk and in its cgroups
// of a Pod: there is no worker for the UID, and its name is not held for what an earlier kubelet
// left. The log directory of a Pod whose sandbox may still come is all that tells the next kubelet
// of it.
func (p *Pool) ShouldPodContentBeRemoved(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers[uid] == nil && p.leftovers[uid].pod == nil
}

// View is one Pod as its worker sees it. It must not be changed.
type View struct {
	Pod      *v1.Pod // with the newest status, written or not
	Source   string
	Stage    podplan.Stage
	Observed podplan.Observed
	Released bool // volumes, cgroup and directories are gone; containers that ended may still be there
}

// View returns one Pod as its worker published it last; ok is false when it is not on this node.
func (p *Pool) View(uid types.UID) (v View, ok bool) {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w == nil {
		return View{}, false
	}
	return w.published.get(), true
}

// Views returns all Pods of the node, in no order.
func (p *Pool) Views() []View {
	p.mu.Lock()
	list := make([]*worker, 0, len(p.workers))
	for _, w := range p.workers {
		list = append(list, w)
	}
	p.mu.Unlock()
	out := make([]View, 0, len(list))
	for _, w := range list {
		out = append(out, w.published.get())
	}
	return out
}

// removeWorker removes a worker that has ended for good.
func (p *Pool) removeWorker(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers[w.uid] != w {
		return
	}
	delete(p.workers, w.uid)
	if n, back := p.pendingRestarts[w.uid]; back {
		delete(p.pendingRestarts, w.uid)
		p.d.Metrics.StaticPodRestarted()
		p.startWorker(n)
	}
}

// AllocatableChanged decides the resizes that wait again: what the node can give its Pods has
// changed.
func (p *Pool) AllocatableChanged() { p.allocations.RetryPendingResizes() }

// HoldAdmissions runs f while no Pod is being let in.
func (p *Pool) HoldAdmissions(f func()) { p.allocations.Hold(f) }

// SourcesReady tells that all sources have said which Pods they have: resizes are decided from now
// on, whenever there may be more room.
func (p *Pool) SourcesReady() {
	p.mu.Lock()
	p.sourcesReady = true
	p.mu.Unlock()
	p.allocations.SourcesReady()
}

// IsActive tells whether a Pod may still use what the node gave it: it has not ended, an earlier
// kubelet left it, or not all sources have said which Pods they have.
func (p *Pool) IsActive(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[uid]; w != nil {
		return w.published.get().Stage < podplan.Stopped
	}
	return !p.sourcesReady || p.leftovers[uid].pod != nil
}

// PublishAllocation shows the Pod with what it was allocated, so that nobody else is given that
// room; the rest is allocation.Manager's.
func (w *worker) PublishAllocation(a pod.Allocation) {
	w.published.change(func(v *View) {
		if v.Pod != nil {
			v.Pod = a.ApplyTo(v.Pod)
		}
	})
}

// Wake has the worker look at its Pod again, since the runtime may have changed. It does not wait;
// several calls before the worker runs are one. Any goroutine may call it.
func (w *worker) Wake() { w.mailbox.Wake(wakeRuntime) }

// otherPods are the Pods that take part of the node: admitted, by this kubelet or the one before
// it, and not stopped.
func (p *Pool) otherPods(uid types.UID) []*v1.Pod {
	var out []*v1.Pod
	for _, v := range p.Views() {
		waits := v.Stage == podplan.Waiting && (v.Pod.Status.StartTime == nil || pod.IsTerminal(v.Pod))
		if v.Pod.UID != uid && !waits && v.Stage < podplan.Stopped {
			out = append(out, v.Pod)
		}
	}
	return out
}
