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

// Path is one of the three ways a worker goes, strictly one after another: keep the Pod as its spec says, stop it, take it off the node.
type Path string

// Paths of a worker.
const (
	Syncing     Path = "SyncPod"
	Terminating Path = "SyncTerminatingPod"
	Terminated  Path = "SyncTerminatedPod"
)

// patience is how long a step may take before it is called stuck.
const patience = 10 * time.Second

// patienceFor is how long an action may take. What lasts as long as others like (pulls, hooks), or is one call to the runtime, has no limit as a whole; each call in it has.
func patienceFor(a podplan.Action) time.Duration {
	switch a := a.(type) {
	case podplan.Start, podplan.CreateSandbox, podplan.StopSandbox:
		return 0
	case podplan.Stop:
		longest := time.Duration(0)
		for _, k := range a.Kills {
			longest = max(longest, k.Grace)
		}
		return longest + 2*time.Second + patience
	}
	return patience
}

// Step is something a worker has begun for its Pod and that has not come back.
type Step struct {
	Path  Path
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
	mu  sync.Mutex
	now map[*Step]bool // true: it is stuck
}

// path tells which way the worker goes with these actions.
func (w *worker) path(wish *Wish, actions []podplan.Action) Path {
	stage := w.life.facts.Stage()
	released := slices.ContainsFunc(actions, func(a podplan.Action) bool { _, ok := a.(podplan.Release); return ok })
	switch {
	case stage >= podplan.Stopped, released:
		return Terminated
	case stage == podplan.Stopping, wish.End != nil:
		return Terminating
	}
	return Syncing
}

// begin notes a step; the function returned notes that it came back. One that lasts longer than limit is told by name, once; 0 is no limit.
func (w *worker) begin(path Path, what string, limit time.Duration) (end func()) {
	if limit == 0 {
		return func() {}
	}
	s := &Step{Path: path, What: what, Since: time.Now()}
	w.steps.mu.Lock()
	if w.steps.now == nil {
		w.steps.now = map[*Step]bool{}
	}
	w.steps.now[s] = false
	w.steps.mu.Unlock()
	alarm := time.AfterFunc(limit, func() { w.late(s) })
	return func() {
		alarm.Stop()
		w.back(s)
	}
}

// late tells that a step hangs.
func (w *worker) late(s *Step) {
	w.steps.mu.Lock()
	_, still := w.steps.now[s]
	if still {
		w.steps.now[s] = true
	}
	w.steps.mu.Unlock()
	if still {
		w.put(journal.Stuck{Path: string(s.Path), Step: s.What, Since: s.Since})
		klog.FromContext(context.Background()).Info("The Pod is stuck", "pod", klog.KRef(w.name.Namespace, w.name.Name), "podUID", w.uid, "path", s.Path, "step", s.What, "since", s.Since)
	}
}

// back notes that a step came back.
func (w *worker) back(s *Step) {
	w.steps.mu.Lock()
	stuck := w.steps.now[s]
	delete(w.steps.now, s)
	w.steps.mu.Unlock()
	if stuck {
		w.put(journal.Unstuck{Path: string(s.Path), Step: s.What, Took: journal.Took(time.Since(s.Since))})
	}
}

// stuck are the steps that hang.
func (w *worker) stuck() (out []Step) {
	w.steps.mu.Lock()
	defer w.steps.mu.Unlock()
	for s, late := range w.steps.now {
		if late {
			out = append(out, *s)
		}
	}
	return out
}

// Stuck names the Pods with steps that hang, longest first. The others are not touched by it: each Pod has its own worker.
func (p *Pool) Stuck() []StuckPod {
	p.mu.Lock()
	var out []StuckPod
	for _, w := range p.workers {
		for _, s := range w.stuck() {
			out = append(out, StuckPod{Pod: w.name, UID: w.uid, Step: s})
		}
	}
	p.mu.Unlock()
	slices.SortFunc(out, func(a, b StuckPod) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Pod.String(), b.Pod.String()), cmp.Compare(a.What, b.What))
	})
	return out
}
