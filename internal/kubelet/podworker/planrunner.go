package podworker

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

// planRunner carries plans out, one at a time. It decides nothing and keeps nothing of a plan that
// has ended.
type planRunner struct {
	actions Actions
	begin   func(state PodWorkerState, what string, limit time.Duration) (end func())
	resized func(took time.Duration, err error) // called after each resize
	// the last action of the plan is under way, alone starts something, and does nothing after that
	lastAction atomic.Bool
}

// newPlanRunner returns a planRunner that tells begin of each step that may hang.
func newPlanRunner(actions Actions, begin func(PodWorkerState, string, time.Duration) func(),
	resized func(time.Duration, error)) *planRunner {
	return &planRunner{actions: actions, begin: begin, resized: resized}
}

// start carries actions out in a goroutine of its own and sends the one result.
func (p *planRunner) start(ctx context.Context, state PodWorkerState, j podactions.Job,
	actions []podplan.Action) <-chan result {
	results := make(chan result, 1)
	p.lastAction.Store(false)
	go func() { results <- p.run(ctx, state, j, actions) }()
	return results
}

// result is how far a plan went.
type result struct {
	done             []podplan.Action
	failed           podplan.Action // nil when all were done
	err              error
	abandoned        podplan.Action           // what had been begun beside the one that failed
	uncertainSandbox podplan.UncertainSandbox // of a sandbox that the runtime may make although it was given up
}

// noteUncertainSandbox keeps in mind what the failure of an action leaves open.
func (r *result) noteUncertainSandbox(a podplan.Action, err error) {
	if createSandbox, ok := a.(podplan.CreateSandbox); ok && errors.Is(err, podactions.ErrAbandoned) {
		r.uncertainSandbox = podplan.UncertainSandbox{Attempt: createSandbox.Attempt, AbandonedAt: time.Now()}
	}
}

// runtimeUntouched tells whether the runtime has not been asked to do anything.
func (r result) runtimeUntouched() bool {
	for _, a := range append(r.done, r.failed, r.abandoned) {
		switch a.(type) {
		case podplan.PrepareVolumes, podplan.Release, podplan.Resize, nil:
		default:
			return false
		}
	}
	return true
}

// run carries actions out in order up to the first that fails.
func (p *planRunner) run(ctx context.Context, state PodWorkerState, j podactions.Job,
	actions []podplan.Action) result {
	var r result
	j.Step = func(what string) func() { return p.begin(state, what, stepTimeout) }
	started := false // by an earlier action: the runtime tells of it when this one is under way already
	if createSandbox, ok := parallelSandbox(actions); ok {
		p.lastAction.Store(true)
		return p.prepareInParallel(ctx, state, j, createSandbox)
	}
	for i, a := range actions {
		p.lastAction.Store(i == len(actions)-1 && !started && !hasPostStartHook(j.Pod, a))
		if err := p.runAction(ctx, state, j, a); err != nil {
			r.failed, r.err = a, err
			r.noteUncertainSandbox(a, err)
			break
		}
		r.done = append(r.done, a)
		if _, ok := a.(podplan.Start); ok {
			started = true
		}
	}
	return r
}

// runAction carries out one action.
func (p *planRunner) runAction(ctx context.Context, state PodWorkerState, j podactions.Job, a podplan.Action) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer p.begin(state, a.Line(), stepTimeoutFor(a))()
	startedAt := time.Now()
	err := p.actions.Do(ctx, j, a)
	if _, resize := a.(podplan.Resize); resize {
		p.resized(time.Since(startedAt), err)
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
func (p *planRunner) prepareInParallel(ctx context.Context, state PodWorkerState, j podactions.Job,
	createSandbox podplan.CreateSandbox) result {
	callCtx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	cgroupReady, sandboxDone := make(chan struct{}), make(chan error, 1)
	j.CgroupReady = sync.OnceFunc(func() { close(cgroupReady) })
	go func() {
		select {
		case <-cgroupReady:
			sandboxDone <- p.runAction(callCtx, state, j, createSandbox)
		case <-callCtx.Done():
			sandboxDone <- callCtx.Err()
		}
	}()
	if err := p.runAction(ctx, state, j, podplan.PrepareVolumes{}); err != nil {
		abandon(podactions.ErrNoWait)
		r := result{failed: podplan.PrepareVolumes{}, err: err, abandoned: createSandbox}
		r.noteUncertainSandbox(createSandbox, <-sandboxDone)
		return r
	}
	j.CgroupReady()
	r := result{done: []podplan.Action{podplan.PrepareVolumes{}}}
	if err := <-sandboxDone; err != nil {
		r.failed, r.err = createSandbox, err
		r.noteUncertainSandbox(createSandbox, err)
		return r
	}
	r.done = append(r.done, createSandbox)
	return r
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
