package allocation

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// Store keeps what resizes granted over restarts of the kubelet; podactions.AllocationStore does.
type Store interface {
	// Load returns a Pod's record; ok is false when it was never resized.
	Load(uid types.UID) (record podactions.AllocationRecord, ok bool, err error)
	Save(uid types.UID, record podactions.AllocationRecord) error
}

// PodWorker is the worker of a Pod whose resize waits. Both methods are called with the Manager's
// lock held, and must not call it.
type PodWorker interface {
	// PublishAllocation shows others the Pod with what it was allocated, so that nobody else is
	// given that room.
	PublishAllocation(pod.Allocation)
	// Wake has the worker look again: its resize was granted, or refused for another reason.
	Wake()
}

// Deps is what a Manager works with.
type Deps struct {
	// Admit checks a Pod that comes. A nil refusal lets it in, once the victims have ended.
	Admit func(pod *v1.Pod, others []*v1.Pod) (victims []*v1.Pod, refusal *reason.Refusal)
	// Resize checks a resize; a nil refusal grants it.
	Resize func(r admit.Resize, others []*v1.Pod) *reason.Refusal
	// OtherPods are all Pods that take part of the node but this one, with what they were
	// allocated.
	OtherPods func(uid types.UID) []*v1.Pod
	Store     Store
	Events    *events.Recorder
	Journal   journal.Sink
	Metrics   *metrics.Metrics // may be nil
}

// Manager gives the node's room away. Make one with New.
type Manager struct {
	d Deps

	mu      sync.Mutex // room is given to one Pod at a time
	pending map[types.UID]*pendingResize
	// all Pods of the node are known: resizes are decided from then on
	sourcesReady bool
}

// pendingResize is a resize that waits for room, or for its worker to take note of the grant.
type pendingResize struct {
	worker PodWorker
	admit.Resize
	resumed bool // a kubelet before this one refused it, and has counted it
	refusal *reason.Refusal
	granted bool
}

// New returns a Manager.
func New(d Deps) *Manager { return &Manager{d: d, pending: map[types.UID]*pendingResize{}} }

// Admit checks a Pod that comes: nil lets it in. Before another Pod is checked, preempt has been
// called for each Pod that has to go for it, and reserve if it was let in, which makes OtherPods
// return it.
func (m *Manager) Admit(p *v1.Pod, preempt func(victim *v1.Pod), reserve func()) *reason.Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	victims, refusal := m.d.Admit(p, m.d.OtherPods(p.UID))
	for _, v := range victims {
		preempt(v)
	}
	if refusal == nil {
		reserve()
	}
	return refusal
}

// Hold runs f while no Pod is being admitted.
func (m *Manager) Hold(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// request decides a resize in its turn among all that wait; no refusal grants it: the room is taken
// from then on. It is not decided before all Pods of the node are known.
func (m *Manager) request(r pendingResize) (refusal *reason.Refusal, decided bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.pending[r.Pod.UID]
	if a == nil || !pod.AllocationOf(r.Pod).Matches(a.Pod) {
		before := r.Allocated
		if a != nil {
			before, r.Since = a.Pod, a.Since
		}
		if !r.resumed {
			m.d.Metrics.ResizeRequested(before, r.Pod)
		}
		a = &r
		m.pending[r.Pod.UID] = a
	}
	a.Resize.Pod, a.Allocated = r.Pod, r.Allocated
	m.retryLocked()
	if a.granted {
		return nil, true
	}
	return a.refusal, a.refusal != nil
}

// Forget forgets a Pod's resize.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, uid)
}

// RetryPendingResizes decides the resizes that wait again: there may be more room now.
func (m *Manager) RetryPendingResizes() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retryLocked()
}

// SourcesReady decides the resizes that wait, now that all sources have said which Pods they have.
func (m *Manager) SourcesReady() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sourcesReady = true
	m.retryLocked()
}

// retryLocked goes through the waiting resizes in their order; what is granted counts for those
// that follow. Callers hold m.mu.
func (m *Manager) retryLocked() {
	if !m.sourcesReady {
		return
	}
	var list []admit.Resize
	for _, a := range m.pending {
		if !a.granted {
			list = append(list, a.Resize)
		}
	}
	admit.SortResizes(list)
	for _, r := range list {
		a := m.pending[r.Pod.UID]
		refusal := m.d.Resize(r, m.d.OtherPods(r.Pod.UID))
		changed := a.refusal == nil || refusal == nil || a.refusal.Detail != refusal.Detail
		a.refusal = refusal
		if refusal == nil {
			a.granted = true
			a.worker.PublishAllocation(pod.AllocationOf(r.Pod))
		}
		if changed {
			a.worker.Wake()
		}
	}
}
