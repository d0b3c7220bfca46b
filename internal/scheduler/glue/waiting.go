package glue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
)

// Waiting holds the Pods parked at Permit, and those in PreBind.
type Waiting struct {
	mu      sync.RWMutex
	pods    map[types.UID]*waitingPod
	preBind map[types.UID]*preBindPod
}

// NewWaiting is empty.
func NewWaiting() *Waiting {
	return &Waiting{pods: map[types.UID]*waitingPod{}, preBind: map[types.UID]*preBindPod{}}
}

// waitingPod waits until every pending plugin allows it, or one rejects it, or a plugin's time is over.
type waitingPod struct {
	pod     *v1.Pod
	verdict chan *framework.Status // capacity one: the first verdict counts
	mu      sync.Mutex
	pending map[string]*time.Timer
}

var _ framework.WaitingPod = (*waitingPod)(nil)

// Park makes a Pod wait for plugins, each at most as long as given.
func (w *Waiting) Park(p *v1.Pod, plugins map[string]time.Duration) {
	wp := &waitingPod{pod: p, verdict: make(chan *framework.Status, 1), pending: map[string]*time.Timer{}}
	wp.mu.Lock()
	for name, d := range plugins {
		wp.pending[name] = time.AfterFunc(d, func() {
			wp.Reject(name, fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", d, name))
		})
	}
	wp.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[p.UID] = wp
}

// Wait returns when the Pod may go on (nil), or why not. A Pod that is not parked goes on at once.
func (w *Waiting) Wait(ctx context.Context, p *v1.Pod) *framework.Status {
	wp := w.find(p.UID)
	if wp == nil {
		return nil
	}
	defer w.remove(p.UID)
	select {
	case s := <-wp.verdict:
		return s
	case <-ctx.Done():
		wp.stop()
		return framework.AsStatus(context.Cause(ctx))
	}
}

func (w *Waiting) find(uid types.UID) *waitingPod {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.pods[uid]
}

func (w *Waiting) remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
}

// Find gives a Pod at Permit; nil when it is not there.
func (w *Waiting) Find(uid types.UID) framework.WaitingPod {
	if p := w.find(uid); p != nil {
		return p
	}
	return nil
}

// Each calls back for every waiting Pod.
func (w *Waiting) Each(callback func(framework.WaitingPod)) {
	w.mu.RLock()
	all := slices.Collect(maps.Values(w.pods))
	w.mu.RUnlock()
	for _, wp := range all {
		callback(wp)
	}
}

// GetPod gives the Pod.
func (p *waitingPod) GetPod() *v1.Pod { return p.pod }

// GetPendingPlugins names the plugins that have not allowed it yet.
func (p *waitingPod) GetPendingPlugins() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.pending))
}

// Allow takes a plugin off the list; with the last one the Pod goes on.
func (p *waitingPod) Allow(plugin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, ok := p.pending[plugin]; ok {
		t.Stop()
		delete(p.pending, plugin)
		if len(p.pending) == 0 {
			p.decide(nil)
		}
	}
}

// Reject turns the Pod away as unschedulable; false when it was decided already.
func (p *waitingPod) Reject(plugin, msg string) bool {
	return p.end(framework.NewStatus(framework.Unschedulable, msg).WithPlugin(plugin))
}

// Preempt sends the Pod back to the queue without calling it unschedulable; false when it was decided already.
func (p *waitingPod) Preempt(plugin, msg string) bool {
	return p.end(framework.NewStatus(framework.Error, msg).WithPlugin(plugin))
}

func (p *waitingPod) end(s *framework.Status) bool {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decide(s)
}

func (p *waitingPod) decide(s *framework.Status) bool {
	select {
	case p.verdict <- s:
		return true
	default:
		return false
	}
}

func (p *waitingPod) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.pending {
		t.Stop()
	}
}

// preBindPod is a Pod in PreBind; preemption may cancel it until it is marked.
type preBindPod struct {
	mu     sync.Mutex
	cancel context.CancelCauseFunc
	done   bool // canceled or marked
	marked bool
}

// CancelPod ends the binding; false when it is too late.
func (p *preBindPod) CancelPod(reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return false
	}
	p.done = true
	p.cancel(fmt.Errorf("%s", reason))
	return true
}

// MarkPrebound says that it is too late to cancel; false when it was canceled.
func (p *preBindPod) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return p.marked
	}
	p.done, p.marked = true, true
	return true
}

// AddPreBind remembers how to cancel a Pod's PreBind.
func (w *Waiting) AddPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.preBind[uid] = &preBindPod{cancel: cancel}
}

// PreBind finds a Pod in PreBind; nil when there is none.
func (w *Waiting) PreBind(uid types.UID) framework.PodInPreBind {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if p := w.preBind[uid]; p != nil {
		return p
	}
	return nil
}

// RemovePreBind forgets it.
func (w *Waiting) RemovePreBind(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.preBind, uid)
}
