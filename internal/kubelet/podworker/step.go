package podworker

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// PodWorkerState is one of the three ways a worker goes, strictly one after another: keep the Pod
// as its spec says, stop it, take it off the node.
type PodWorkerState string

// Paths of a worker.
const (
	SyncPod        PodWorkerState = "SyncPod"
	TerminatingPod PodWorkerState = "SyncTerminatingPod"
	TerminatedPod  PodWorkerState = "SyncTerminatedPod"
)

// stepTimeout is how long a step may take before it is called stuck.
const stepTimeout = 10 * time.Second

// stepTimeoutFor is how long an action may take. What lasts as long as others like (pulls, hooks),
// or is one call to the runtime, has no limit as a whole; each call in it has.
func stepTimeoutFor(a podplan.Action) time.Duration {
	switch a := a.(type) {
	case podplan.Start, podplan.CreateSandbox, podplan.StopSandbox:
		return 0
	case podplan.Stop:
		longest := time.Duration(0)
		for _, k := range a.Kills {
			longest = max(longest, k.Grace)
		}
		return longest + 2*time.Second + stepTimeout
	}
	return stepTimeout
}

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

// steps are what is under way for one Pod.
type steps struct {
	mu      sync.Mutex
	running map[*Step]bool // true: it is stuck
}

// stateFor tells which way the worker goes with these actions.
func (w *worker) stateFor(desired *UpdatePodOptions, actions []podplan.Action) PodWorkerState {
	stage := w.state.facts.Stage()
	released := slices.ContainsFunc(actions, func(a podplan.Action) bool { _, ok := a.(podplan.Release); return ok })
	switch {
	case stage >= podplan.Stopped, released:
		return TerminatedPod
	case stage == podplan.Stopping, desired.Termination != nil:
		return TerminatingPod
	}
	return SyncPod
}

// beginStep notes a step; the function returned notes that it came back. One that lasts longer than
// limit is told by name, once; 0 is no limit.
func (w *worker) beginStep(path PodWorkerState, what string, limit time.Duration) (end func()) {
	if limit == 0 {
		return func() {}
	}
	s := &Step{State: path, What: what, Since: time.Now()}
	w.steps.mu.Lock()
	if w.steps.running == nil {
		w.steps.running = map[*Step]bool{}
	}
	w.steps.running[s] = false
	w.steps.mu.Unlock()
	alarm := time.AfterFunc(limit, func() { w.reportStuck(s) })
	return func() {
		alarm.Stop()
		w.endStep(s)
	}
}

// reportStuck tells that a step hangs.
func (w *worker) reportStuck(s *Step) {
	w.steps.mu.Lock()
	_, still := w.steps.running[s]
	if still {
		w.steps.running[s] = true
	}
	w.steps.mu.Unlock()
	if still {
		w.put(journal.Stuck{Path: string(s.State), Step: s.What, Since: s.Since})
		klog.FromContext(context.Background()).Info("The Pod is stuck", "pod", klog.KRef(w.name.Namespace, w.name.Name),
			"podUID", w.uid, "path", s.State, "step", s.What, "since", s.Since)
	}
}

// endStep notes that a step came back.
func (w *worker) endStep(s *Step) {
	w.steps.mu.Lock()
	stuck := w.steps.running[s]
	delete(w.steps.running, s)
	w.steps.mu.Unlock()
	if stuck {
		w.put(journal.Unstuck{Path: string(s.State), Step: s.What, Took: journal.Took(time.Since(s.Since))})
	}
}

// stuckSteps are the steps that hang.
func (w *worker) stuckSteps() (out []Step) {
	w.steps.mu.Lock()
	defer w.steps.mu.Unlock()
	for s, isStuck := range w.steps.running {
		if isStuck {
			out = append(out, *s)
		}
	}
	return out
}

// StuckPods names the Pods with steps that hang, longest first. The others are not touched by it:
// each Pod has its own worker.
func (p *Pool) StuckPods() []StuckPod {
	p.mu.Lock()
	var out []StuckPod
	for _, w := range p.workers {
		for _, s := range w.stuckSteps() {
			out = append(out, StuckPod{Pod: w.name, UID: w.uid, Step: s})
		}
	}
	p.mu.Unlock()
	slices.SortFunc(out, func(a, b StuckPod) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Pod.String(), b.Pod.String()),
			cmp.Compare(a.What, b.What))
	})
	return out
}
