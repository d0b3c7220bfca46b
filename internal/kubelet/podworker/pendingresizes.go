package podworker

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// pendingResize is a wish for other sizes that waits for its worker to make it true, or for room.
// Guarded by Pool.admit.
type pendingResize struct {
	worker *worker
	admit.Resize
	refusal *reason.Refusal
	granted bool
}

// requestResize judges a resize in its turn among all that wait; no refusal grants it: the room is
// taken from then on. It is not judged before all Pods of the node are known.
func (p *Pool) requestResize(w *worker, r admit.Resize) (refusal *reason.Refusal, decided bool) {
	p.admission.Lock()
	defer p.admission.Unlock()
	a := p.pendingResizes[w.uid]
	if a == nil || !pod.AllocationOf(r.Pod).Matches(a.Pod) {
		old := a
		before := r.Allocated
		if old != nil {
			before = old.Pod
		}
		p.d.Meter.ResizeRequested(before, r.Pod)
		a = &pendingResize{worker: w, Resize: r}
		if old != nil {
			a.Since = old.Since
		}
		p.pendingResizes[w.uid] = a
	}
	a.Resize.Pod, a.Allocated = r.Pod, r.Allocated
	p.retryPendingResizesLocked()
	if a.granted {
		return nil, true
	}
	return a.refusal, a.refusal != nil
}

// removePendingResize forgets a Pod's wish for other sizes.
func (p *Pool) removePendingResize(uid types.UID) {
	p.admission.Lock()
	defer p.admission.Unlock()
	delete(p.pendingResizes, uid)
}

// retryPendingResizes judges the waiting resizes again: there may be more room now.
func (p *Pool) retryPendingResizes() {
	p.admission.Lock()
	defer p.admission.Unlock()
	p.retryPendingResizesLocked()
}

// AllocatableChanged judges the resizes that wait: what the node can give its Pods is another than
// before.
func (p *Pool) AllocatableChanged() { p.retryPendingResizes() }

// SourcesReady judges the resizes that wait: once all sources have said what they have. From then
// on they are judged whenever there may be more room.
func (p *Pool) SourcesReady() {
	p.admission.Lock()
	defer p.admission.Unlock()
	p.sourcesReady = true
	p.retryPendingResizesLocked()
}

// retryPendingResizesLocked goes through the waiting resizes in their order; what is granted counts
// for those that follow. Callers hold p.admit.
func (p *Pool) retryPendingResizesLocked() {
	if !p.sourcesReady {
		return
	}
	var list []admit.Resize
	for _, a := range p.pendingResizes {
		if !a.granted {
			list = append(list, a.Resize)
		}
	}
	admit.SortResizes(list)
	for _, r := range list {
		a := p.pendingResizes[r.Pod.UID]
		refusal := p.d.Resize(r, p.otherPods(r.Pod.UID))
		changed := a.refusal == nil || refusal == nil || a.refusal.Detail != refusal.Detail
		a.refusal = refusal
		if refusal == nil {
			a.granted = true
			a.worker.publishAllocation(r)
		}
		if changed {
			a.worker.wake(wakeRuntime)
		}
	}
}

// publishAllocation shows the Pod with the sizes it was granted, so that nobody else is given that
// room.
func (w *worker) publishAllocation(r admit.Resize) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.published.Pod != nil {
		w.published.Pod = pod.AllocationOf(r.Pod).ApplyTo(w.published.Pod)
	}
}
