// Package planrunner carries one plan of podplan out.
//
// Actions are done in their order, up to the first that fails; the sandbox may be made beside the
// Pod's volumes. Each step that may hang is announced, so that a stuck one can be named.
//
// In: a Plan, and a context whose end cancels what is under way. Out: one Result. Nothing is
// decided here and nothing is kept of a plan that has ended.
//
// To add an action that may run beside another: a case like parallelSandbox.
package planrunner

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// StepTimeout is how long a step may take before it is called stuck.
const StepTimeout = 10 * time.Second

// Actions does one action; podactions.Executor does.
type Actions interface {
	Do(ctx context.Context, j podactions.Job, a podplan.Action) error
}

// Plan is what is carried out, and who is told of it.
type Plan struct {
	Do      []podplan.Action
	Job     podactions.Job // Step and CgroupReady are set here
	Actions Actions
	// Begin is called when a step begins; what it returns, when the step has ended. A limit of 0 is
	// none. It may be called from several goroutines.
	Begin func(what string, limit time.Duration) (end func())
	// Resized is called after each resize.
	Resized func(took time.Duration, err error)
}

// Run is a plan that is carried out.
type Run struct {
	Plan
	results    chan Result
	lastAction atomic.Bool
}

// Start carries a plan out in a goroutine of its own. It ends early when ctx does.
func Start(ctx context.Context, p Plan) *Run {
	r := &Run{Plan: p, results: make(chan Result, 1)}
	r.Job.Step = func(what string) func() { return r.Begin(what, StepTimeout) }
	go func() { r.results <- r.run(ctx) }()
	return r
}

// Result delivers the one Result.
func (r *Run) Result() <-chan Result { return r.results }

// LastAction tells whether the last action of the plan is under way, alone starts something, and
// does nothing after that.
func (r *Run) LastAction() bool { return r.lastAction.Load() }

// timeoutFor is how long an action may take. What lasts as long as others like (pulls, hooks), or
// is one call to the runtime, has no limit as a whole; each call in it has.
func timeoutFor(a podplan.Action) time.Duration {
	switch a := a.(type) {
	case podplan.Start, podplan.CreateSandbox, podplan.StopSandbox:
		return 0
	case podplan.Stop:
		longest := time.Duration(0)
		for _, k := range a.Kills {
			longest = max(longest, k.Grace)
		}
		return longest + 2*time.Second + StepTimeout
	}
	return StepTimeout
}

// Result is how far a plan went.
type Result struct {
	Done   []podplan.Action
	Failed podplan.Action // nil when all were done
	Err    error          // of Failed
	// a sandbox that the runtime may make although it was given up; zero: there is none
	UncertainSandbox podplan.UncertainSandbox
	abandoned        podplan.Action // what had been begun beside the one that failed
}

// noteUncertainSandbox keeps in mind what the failure of an action leaves open.
func (r *Result) noteUncertainSandbox(a podplan.Action, err error) {
	if createSandbox, ok := a.(podplan.CreateSandbox); ok && errors.Is(err, podactions.ErrAbandoned) {
		r.UncertainSandbox = podplan.UncertainSandbox{Attempt: createSandbox.Attempt, AbandonedAt: time.Now()}
	}
}

// RuntimeUntouched tells whether the runtime has not been asked to do anything.
func (r Result) RuntimeUntouched() bool {
	for _, a := range append(r.Done[:len(r.Done):len(r.Done)], r.Failed, r.abandoned) {
		switch a.(type) {
		case podplan.PrepareVolumes, podplan.Release, podplan.Resize, nil:
		default:
			return false
		}
	}
	return true
}

// run carries actions out in order up to the first that fails.
func (r *Run) run(ctx context.Context) (out Result) {
	if createSandbox, ok := parallelSandbox(r.Do); ok {
		r.lastAction.Store(true)
		return r.prepareInParallel(ctx, createSandbox)
	}
	started := false // by an earlier action: the runtime tells of it when this one is under way already
	for i, a := range r.Do {
		r.lastAction.Store(i == len(r.Do)-1 && !started && !hasPostStartHook(r.Job.Pod, a))
		if err := r.runAction(ctx, r.Job, a); err != nil {
			out.Failed, out.Err = a, err
			out.noteUncertainSandbox(a, err)
			break
		}
		out.Done = append(out.Done, a)
		if _, ok := a.(podplan.Start); ok {
			started = true
		}
	}
	return out
}

// runAction carries out one action.
func (r *Run) runAction(ctx context.Context, j podactions.Job, a podplan.Action) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer r.Begin(a.Line(), timeoutFor(a))()
	startedAt := time.Now()
	err := r.Actions.Do(ctx, j, a)
	if _, resize := a.(podplan.Resize); resize {
		r.Resized(time.Since(startedAt), err)
	}
	return err
}

// parallelSandbox finds in a plan that prepares a Pod's volumes the sandbox that may be made beside
// that.
func parallelSandbox(actions []podplan.Action) (createSandbox podplan.CreateSandbox, ok bool) {
	if len(actions) != 2 || actions[0] != (podplan.PrepareVolumes{}) {
		return createSandbox, false
	}
	createSandbox, ok = actions[1].(podplan.CreateSandbox)
	return createSandbox, ok && createSandbox.Parallel
}

// prepareInParallel prepares a Pod's volumes and makes its sandbox beside that, as soon as its
// cgroup is there. When the volumes cannot be prepared the sandbox is given up, and only that
// failure is reported. A runtime that made it nevertheless keeps it for the time when they can be.
func (r *Run) prepareInParallel(ctx context.Context, createSandbox podplan.CreateSandbox) (out Result) {
	j := r.Job
	callCtx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	cgroupReady, sandboxDone := make(chan struct{}), make(chan error, 1)
	j.CgroupReady = sync.OnceFunc(func() { close(cgroupReady) })
	go func() {
		select {
		case <-cgroupReady:
			sandboxDone <- r.runAction(callCtx, j, createSandbox)
		case <-callCtx.Done():
			sandboxDone <- callCtx.Err()
		}
	}()
	if err := r.runAction(ctx, j, podplan.PrepareVolumes{}); err != nil {
		abandon(podactions.ErrNoWait)
		out = Result{Failed: podplan.PrepareVolumes{}, Err: err, abandoned: createSandbox}
		out.noteUncertainSandbox(createSandbox, <-sandboxDone)
		return out
	}
	j.CgroupReady()
	out.Done = []podplan.Action{podplan.PrepareVolumes{}}
	if err := <-sandboxDone; err != nil {
		out.Failed, out.Err = createSandbox, err
		out.noteUncertainSandbox(createSandbox, err)
		return out
	}
	out.Done = append(out.Done, createSandbox)
	return out
}

// hasPostStartHook tells whether an action goes on after the container runs.
func hasPostStartHook(p *v1.Pod, a podplan.Action) bool {
	s, ok := a.(podplan.Start)
	if !ok {
		return false
	}
	m, ok := podplan.MemberOf(p, s.Name)
	return ok && m.Lifecycle != nil && m.Lifecycle.PostStart != nil
}
