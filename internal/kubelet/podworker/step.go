package podworker

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// PodWorkerState is what a worker does, strictly one after another: keep the Pod as its spec says,
// stop it, take it off the node.
type PodWorkerState string

// States of a worker, named as upstream's methods.
const (
	SyncPod        PodWorkerState = "SyncPod"
	TerminatingPod PodWorkerState = "SyncTerminatingPod"
	TerminatedPod  PodWorkerState = "SyncTerminatedPod"
)

// Step is something a worker has begun for its Pod and that has not come back.
type Step struct {
	State PodWorkerState
	What  string
	Since time.Time
}

// StuckPod is a Pod with a step that should have come back.
type StuckPod struct {
	Pod types.NamespacedName
	UID types.UID
	Step
}

// stepTracker knows what all workers have begun and not ended. Its methods may be called from any
// goroutine.
type stepTracker struct {
	journal journal.Sink
	mu      sync.Mutex
	running map[*podStep]bool // true: it is stuck
}

type podStep struct {
	StuckPod
	ref journal.Ref
}

func newStepTracker(j journal.Sink) *stepTracker {
	return &stepTracker{journal: j, running: map[*podStep]bool{}}
}

// begin notes a step; the function returned notes that it came back. One that lasts longer than
// limit is reported by name, once; 0 is no limit.
func (t *stepTracker) begin(s podStep, limit time.Duration) (end func()) {
	if limit == 0 {
		return func() {}
	}
	s.Since = time.Now()
	t.mu.Lock()
	t.running[&s] = false
	t.mu.Unlock()
	alarm := time.AfterFunc(limit, func() { t.stuck(&s) })
	return func() {
		alarm.Stop()
		t.end(&s)
	}
}

// stuck reports that a step hangs.
func (t *stepTracker) stuck(s *podStep) {
	t.mu.Lock()
	_, still := t.running[s]
	if still {
		t.running[s] = true
	}
	t.mu.Unlock()
	if still {
		t.journal.Put(s.ref, journal.Stuck{Path: string(s.State), Step: s.What, Since: s.Since})
		klog.InfoS("The Pod is stuck", "pod", klog.KRef(s.Pod.Namespace, s.Pod.Name), "podUID", s.UID, "path", s.State,
			"step", s.What, "since", s.Since)
	}
}

// end notes that a step came back.
func (t *stepTracker) end(s *podStep) {
	t.mu.Lock()
	stuck := t.running[s]
	delete(t.running, s)
	t.mu.Unlock()
	if stuck {
		t.journal.Put(s.ref, journal.Unstuck{Path: string(s.State), Step: s.What,
			Took: journal.Took(time.Since(s.Since))})
	}
}

// stuckPods are the steps that hang, longest first.
func (t *stepTracker) stuckPods() (out []StuckPod) {
	t.mu.Lock()
	for s, isStuck := range t.running {
		if isStuck {
			out = append(out, s.StuckPod)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(out, func(a, b StuckPod) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Pod.String(), b.Pod.String()),
			cmp.Compare(a.What, b.What))
	})
	return out
}

// StuckPods names the Pods with steps that hang, longest first. The others are not touched by it:
// each Pod has its own worker.
func (p *Pool) StuckPods() []StuckPod { return p.steps.stuckPods() }

// beginStep notes that the worker begins something that may hang.
func (w *worker) beginStep(state PodWorkerState, what string, limit time.Duration) (end func()) {
	return w.pool.steps.begin(podStep{ref: w.ref, StuckPod: StuckPod{Pod: w.name(), UID: w.uid,
		Step: Step{State: state, What: what}}}, limit)
}

// stateFor is the state of the worker that carries these actions out.
func (w *worker) stateFor(desired *UpdatePodOptions, actions []podplan.Action) PodWorkerState {
	stage := w.facts.Stage()
	released := slices.ContainsFunc(actions, func(a podplan.Action) bool { _, ok := a.(podplan.Release); return ok })
	switch {
	case stage >= podplan.Stopped, released:
		return TerminatedPod
	case stage == podplan.Stopping, desired.Termination != nil:
		return TerminatingPod
	}
	return SyncPod
}
