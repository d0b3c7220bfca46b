package frameworkruntime

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

// WaitingPods are the Pods that wait at Permit, and those in PreBind. Any goroutine may call its
// methods.
type WaitingPods struct {
	mu      sync.RWMutex
	pods    map[types.UID]*waitingPod
	preBind map[types.UID]*podInPreBind
}

// NewWaitingPods makes an empty one.
func NewWaitingPods() *WaitingPods {
	return &WaitingPods{pods: map[types.UID]*waitingPod{}, preBind: map[types.UID]*podInPreBind{}}
}

// waitingPod waits until every pending plugin allows it, or one rejects it, or a plugin's time is
// over.
type waitingPod struct {
	pod     *v1.Pod
	result  chan *framework.Status // capacity one: the first answer counts
	mu      sync.Mutex             // of what follows
	pending map[string]*time.Timer
	decided bool // result was sent
}

var _ framework.WaitingPod = (*waitingPod)(nil)

// Add makes a Pod wait for plugins, each at most as long as given.
func (w *WaitingPods) Add(p *v1.Pod, plugins map[string]time.Duration) {
	wp := &waitingPod{pod: p, result: make(chan *framework.Status, 1), pending: map[string]*time.Timer{}}
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

// Wait blocks until the Pod may be bound (nil), or tells why not; nil at once for a Pod that does
// not wait.
func (w *WaitingPods) Wait(ctx context.Context, p *v1.Pod) *framework.Status {
	wp := w.get(p.UID)
	if wp == nil {
		return nil
	}
	defer w.remove(p.UID)
	select {
	case s := <-wp.result:
		return s
	case <-ctx.Done():
		wp.stopTimers()
		return framework.AsStatus(context.Cause(ctx))
	}
}

func (w *WaitingPods) get(uid types.UID) *waitingPod {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.pods[uid]
}

func (w *WaitingPods) remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
}

// Get gives a Pod at Permit; nil when it is not there.
func (w *WaitingPods) Get(uid types.UID) framework.WaitingPod {
	if p := w.get(uid); p != nil {
		return p
	}
	return nil
}

// Iterate calls back for every waiting Pod.
func (w *WaitingPods) Iterate(callback func(framework.WaitingPod)) {
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
			p.signalLocked(nil)
		}
	}
}

// Reject rejects the Pod as unschedulable; false when it was decided already.
func (p *waitingPod) Reject(plugin, msg string) bool {
	return p.signal(framework.NewStatus(framework.Unschedulable, msg).WithPlugin(plugin))
}

// Preempt sends the Pod back to the queue without calling it unschedulable; false when it was
// decided already.
func (p *waitingPod) Preempt(plugin, msg string) bool {
	return p.signal(framework.NewStatus(framework.Error, msg).WithPlugin(plugin))
}

func (p *waitingPod) signal(s *framework.Status) bool {
	p.stopTimers()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signalLocked(s)
}

// signalLocked decides, unless it is decided: also when who waited has taken the decision.
func (p *waitingPod) signalLocked(s *framework.Status) bool {
	if p.decided {
		return false
	}
	p.decided = true
	p.result <- s
	return true
}

func (p *waitingPod) stopTimers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.pending {
		t.Stop()
	}
}

// podInPreBind is a Pod in PreBind; preemption may cancel it until it is marked.
type podInPreBind struct {
	mu       sync.Mutex
	cancel   context.CancelCauseFunc
	done     bool // canceled or marked
	prebound bool
}

// CancelPod ends the binding; false when it is too late.
func (p *podInPreBind) CancelPod(reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return false
	}
	p.done = true
	p.cancel(fmt.Errorf("%s", reason))
	return true
}

// MarkPrebound ends the time in which the binding can be canceled; false when it was canceled.
func (p *podInPreBind) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return p.prebound
	}
	p.done, p.prebound = true, true
	return true
}

// AddPodInPreBind keeps how to cancel a Pod's PreBind.
func (w *WaitingPods) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.preBind[uid] = &podInPreBind{cancel: cancel}
}

// GetPodInPreBind finds a Pod in PreBind; nil when there is none.
func (w *WaitingPods) GetPodInPreBind(uid types.UID) framework.PodInPreBind {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if p := w.preBind[uid]; p != nil {
		return p
	}
	return nil
}

// RemovePodInPreBind forgets it.
func (w *WaitingPods) RemovePodInPreBind(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.preBind, uid)
}
