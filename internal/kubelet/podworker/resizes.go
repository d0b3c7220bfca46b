package podworker

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// asked is a wish for other sizes that waits for its worker to make it true, or for room. Guarded by Pool.admit.
type asked struct {
	w *worker
	admit.Resize
	no      *reason.Refusal
	granted bool
}

// ask judges a resize in its turn among all that wait; no refusal grants it: the room is taken from then on. It is not judged before all Pods of the node are known.
func (p *Pool) ask(w *worker, r admit.Resize) (no *reason.Refusal, judged bool) {
	p.admit.Lock()
	defer p.admit.Unlock()
	a := p.asked[w.uid]
	if a == nil || !pod.SizesOf(r.Pod).Fit(a.Pod) {
		old := a
		before := r.Allocated
		if old != nil {
			before = old.Pod
		}
		p.d.Meter.ResizeRequested(before, r.Pod)
		a = &asked{w: w, Resize: r}
		if old != nil {
			a.Since = old.Since
		}
		p.asked[w.uid] = a
	}
	a.Resize.Pod, a.Allocated = r.Pod, r.Allocated
	p.judgeAll()
	if a.granted {
		return nil, true
	}
	return a.no, a.no != nil
}

// withdraw forgets a Pod's wish for other sizes.
func (p *Pool) withdraw(uid types.UID) {
	p.admit.Lock()
	defer p.admit.Unlock()
	delete(p.asked, uid)
}

// settle judges the waiting resizes again: there may be more room now.
func (p *Pool) settle() {
	p.admit.Lock()
	defer p.admit.Unlock()
	p.judgeAll()
}

// RoomChanged judges the resizes that wait: what the node can give its Pods is another than before.
func (p *Pool) RoomChanged() { p.settle() }

// Reconsider judges the resizes that wait: once all sources have said what they have. From then on they are judged whenever there may be more room.
func (p *Pool) Reconsider() {
	p.admit.Lock()
	defer p.admit.Unlock()
	p.open = true
	p.judgeAll()
}

// judgeAll goes through the waiting resizes in their order; what is granted counts for those that follow. Callers hold p.admit.
func (p *Pool) judgeAll() {
	if !p.open {
		return
	}
	var list []admit.Resize
	for _, a := range p.asked {
		if !a.granted {
			list = append(list, a.Resize)
		}
	}
	admit.Order(list)
	for _, r := range list {
		a := p.asked[r.Pod.UID]
		no := p.d.Resize(r, p.others(r.Pod.UID))
		changed := a.no == nil || no == nil || a.no.Detail != no.Detail
		a.no = no
		if no == nil {
			a.granted = true
			a.w.hold(r)
		}
		if changed {
			a.w.ring(looked)
		}
	}
}

// hold shows the Pod with the sizes it was granted, so that nobody else is given that room.
func (w *worker) hold(r admit.Resize) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen.Pod != nil {
		w.seen.Pod = pod.SizesOf(r.Pod).On(w.seen.Pod)
	}
}
