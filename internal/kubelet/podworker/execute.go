package podworker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
)

// execute has a plan carried out in a goroutine of its own and listens to the bell meanwhile: a
// tighter wish interrupts it, anything new is told.
func (w *worker) execute(ctx context.Context, desired *UpdatePodOptions, plan podplan.Plan) {
	w.put(plan.Fact())
	w.trackRestarts(plan.Do)
	defer func() { w.state.exits.masked = nil }()
	if worked := w.pool.d.RoundDone; worked != nil {
		startedAt := time.Now()
		defer func() { worked(operation(desired, plan), time.Since(startedAt)) }()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, 1)
	hooks := make(chan hookEvent)
	job := podactions.Job{Pod: w.pod(desired), Observed: w.state.observed,
		Applied:     w.state.allocation.allocated.Applied,
		HookRunning: func(c string, runs bool) { hooks <- hookEvent{c, runs} }}
	path := w.stateFor(desired, plan.Do)
	w.lastAction.Store(false)
	go func() { results <- w.runActions(ctx, path, job, plan.Do) }()
	for {
		select {
		case h := <-hooks:
			w.state.runningHooks[h.container] = h.running
		case r := <-results:
			w.state.fresh = w.state.fresh && r.runtimeUntouched()
			clear(w.state.runningHooks)
			w.recordResult(ctx, r)
			w.reportBackOffs(job.Pod, r.done)
			w.recordActuated(job.Pod, r.done)
			return
		case <-w.wakeup:
			why, newer := w.takeWakeReasons(w.lastAction.Load()), w.desired.Load()
			if stricter(newer.Termination, desired.Termination) {
				cancel()
				defer w.beginStep(TerminatingPod, "the end of what was under way", stepTimeout)()
				desired = newer
				continue
			}
			if why != 0 {
				w.reportProgress(ctx, newer)
			}
		}
	}
}

// operation is upstream's word for a round of a worker.
func operation(desired *UpdatePodOptions, plan podplan.Plan) string {
	for _, a := range plan.Do {
		switch a.(type) {
		case podplan.CreateSandbox:
			return "create"
		case podplan.Release:
			return "terminated"
		}
	}
	if desired.Termination != nil {
		return "terminating"
	}
	return "sync"
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

type hookEvent struct {
	container string
	running   bool
}

// runActions carries actions out in order up to the first that fails.
func (w *worker) runActions(ctx context.Context, path PodWorkerState, j podactions.Job,
	actions []podplan.Action) result {
	var r result
	j.Step = func(what string) func() { return w.beginStep(path, what, stepTimeout) }
	started := false // by an earlier action: the runtime tells of it when this one is under way already
	if createSandbox, ok := parallelSandbox(actions); ok {
		w.lastAction.Store(true)
		return w.prepareInParallel(ctx, path, j, createSandbox)
	}
	for i, a := range actions {
		w.lastAction.Store(i == len(actions)-1 && !started && !hasPostStartHook(j.Pod, a))
		if err := w.runAction(ctx, path, j, a); err != nil {
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
func (w *worker) runAction(ctx context.Context, path PodWorkerState, j podactions.Job, a podplan.Action) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer w.beginStep(path, a.Line(), stepTimeoutFor(a))()
	startedAt := time.Now()
	err := w.pool.d.Actions.Do(ctx, j, a)
	if _, resize := a.(podplan.Resize); resize {
		w.pool.d.Meter.Resized(time.Since(startedAt), err)
	}
	return err
}

// parallelSandbox finds in a plan to furnish a Pod the sandbox that may be made beside that.
func parallelSandbox(actions []podplan.Action) (createSandbox podplan.CreateSandbox, ok bool) {
	if len(actions) != 2 || actions[0] != (podplan.PrepareVolumes{}) {
		return createSandbox, false
	}
	createSandbox, ok = actions[1].(podplan.CreateSandbox)
	return createSandbox, ok && createSandbox.Parallel
}

// prepareInParallel furnishes a Pod and makes its sandbox beside that, as soon as there is ground
// for it. When the Pod cannot be furnished the sandbox is given up, and only that failure is told.
// A runtime that made it nevertheless keeps it for the time when the Pod can be.
func (w *worker) prepareInParallel(ctx context.Context, path PodWorkerState, j podactions.Job,
	createSandbox podplan.CreateSandbox) result {
	callCtx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	cgroupReady, sandboxDone := make(chan struct{}), make(chan error, 1)
	j.CgroupReady = sync.OnceFunc(func() { close(cgroupReady) })
	go func() {
		select {
		case <-cgroupReady:
			sandboxDone <- w.runAction(callCtx, path, j, createSandbox)
		case <-callCtx.Done():
			sandboxDone <- callCtx.Err()
		}
	}()
	if err := w.runAction(ctx, path, j, podplan.PrepareVolumes{}); err != nil {
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

// recordResult turns the result of a plan into facts and failed tries.
func (w *worker) recordResult(ctx context.Context, r result) {
	now := time.Now()
	for _, a := range r.done {
		delete(w.state.tries, tryName(a))
		switch a := a.(type) {
		case podplan.Stop:
			w.recordKilled(a.Kills)
		case podplan.RemoveContainer:
			delete(w.state.exits.restarting, a.ID)
		case podplan.PrepareVolumes:
			w.state.facts.VolumesReady = now
		case podplan.Release:
			w.state.facts.Released = now
			if a.Logs {
				w.state.facts.Removed = now
			}
		}
	}
	if !r.uncertainSandbox.AbandonedAt.IsZero() {
		w.state.facts.UncertainSandbox = r.uncertainSandbox
	}
	if r.failed == nil || ctx.Err() != nil {
		return
	}
	name := tryName(r.failed)
	t := w.state.tries[name]
	refusal := refusalOf(r.err, failureCode(r.failed))
	if t.Refusal == nil || t.Refusal.Error() != refusal.Error() {
		klog.FromContext(ctx).Info("Cannot go on with the Pod", "action", r.failed.Line(), "err", r.err)
		w.put(journal.Waiting{For: r.failed.Line() + ": " + refusal.Error(), Since: now, Next: "tries again",
			Fix: refusal.Fix})
	}
	t.Refusal, t.FailedAt, t.Count = refusal, now, t.Count+1
	w.state.tries[name] = t
}

// recordActuated notes which sizes the actions that were done have put in force.
func (w *worker) recordActuated(p *v1.Pod, done []podplan.Action) {
	var names []string
	for _, a := range done {
		switch a := a.(type) {
		case podplan.Start:
			if a.Kind != podplan.Ephemeral {
				names = append(names, a.Name)
			}
		case podplan.Resize:
			for _, c := range a.Containers {
				names = append(names, c.Name)
			}
			if a.FinalizePodCgroup {
				names = append(names, podplan.PodResources)
			}
		}
	}
	if len(names) > 0 {
		w.recordApplied(p, names...)
	}
}

// trackRestarts notes which running containers a plan stops to start them again. Their end is not
// shown: the API takes no container of a Pod with restartPolicy OnFailure back that it was shown to
// have ended with 0.
func (w *worker) trackRestarts(actions []podplan.Action) {
	w.state.exits.masked = map[string]podplan.Container{}
	for _, a := range actions {
		stop, ok := a.(podplan.Stop)
		if !ok {
			continue
		}
		for _, k := range stop.Kills {
			for _, c := range w.state.observed.Containers {
				if k.Restart && c.ID == k.ID && c.State == podplan.Running {
					w.state.exits.masked[c.ID] = c
				}
			}
		}
	}
}

// maskRestarting is what was seen, with containers that are being started again as they ran.
func (w *worker) maskRestarting(in podplan.In) podplan.In {
	if len(w.state.exits.masked) == 0 {
		return in
	}
	in.Observed.Containers, in.Health = slices.Clone(in.Observed.Containers), maps.Clone(in.Health)
	for i, c := range in.Observed.Containers {
		next := in.Observed.Latest(c.Name)
		followed := next.ID != c.ID && next.State != podplan.Created && !w.state.runningHooks[c.Name]
		if ran, ok := w.state.exits.masked[c.ID]; ok && c.State == podplan.Exited && !followed {
			in.Observed.Containers[i] = ran
			in.Health[c.Name] = w.state.exits.lastHealth[c.Name]
		}
	}
	return in
}

// reportBackOffs tells of containers that were stopped and whose successors have to wait.
func (w *worker) reportBackOffs(p *v1.Pod, done []podplan.Action) {
	for _, a := range done {
		stop, ok := a.(podplan.Stop)
		if !ok {
			continue
		}
		for _, k := range stop.Kills {
			if k.BackOff {
				w.state.exits.backOffReported[k.ID] = true
				w.pool.d.Events.BackOff(p, k.Name, podplan.FullName(p))
			}
		}
	}
}

// recordKilled notes what the next looks have to know of containers that a plan has stopped.
func (w *worker) recordKilled(kills []podplan.Kill) {
	w.state.exits.lastContainerKilled = slices.ContainsFunc(kills, func(k podplan.Kill) bool { return k.LastContainer })
	for _, k := range kills {
		if k.Restart {
			w.state.exits.restarting[k.ID] = true
		}
	}
}

// markRestarting is what was seen, with the containers marked that are to be started again however
// they ended.
func (w *worker) markRestarting(seen podplan.Observed) podplan.Observed {
	if len(w.state.exits.restarting) == 0 {
		return seen
	}
	seen.Containers = slices.Clone(seen.Containers)
	for i := range seen.Containers {
		seen.Containers[i].Restarting = w.state.exits.restarting[seen.Containers[i].ID]
	}
	return seen
}

// tryName is under which name failures of an action are counted.
func tryName(a podplan.Action) string {
	switch a := a.(type) {
	case podplan.Start:
		return a.Name
	case podplan.PrepareVolumes:
		return podplan.PrepareVolumesTry
	case podplan.CreateSandbox:
		return podplan.SandboxTry
	case podplan.Stop, podplan.StopSandbox:
		return podplan.StopTry
	case podplan.Resize:
		return podplan.ResizeTry
	}
	return podplan.ReleaseTry
}

func failureCode(a podplan.Action) reason.Code {
	switch a.(type) {
	case podplan.Start:
		return reason.CreateContainerError
	case podplan.PrepareVolumes:
		return reason.FailedMount
	case podplan.CreateSandbox:
		return reason.FailedCreatePodSandBox
	case podplan.Stop, podplan.StopSandbox:
		return reason.FailedStop
	case podplan.Resize:
		return reason.ResizeError
	}
	return reason.FailedRelease
}

// reportProgress tells the API what happens while something is being done: nothing is decided.
func (w *worker) reportProgress(ctx context.Context, desired *UpdatePodOptions) {
	if err := w.observe(ctx); err != nil {
		return
	}
	in := w.maskRestarting(w.planInput(desired, time.Now()))
	w.state.exits.selfTerminated = false
	if podplan.EffectiveTermination(in) != nil && !in.Observed.Alive() {
		return // the last status follows at once
	}
	for name := range w.state.waitingReasons {
		if c := in.Observed.Latest(name); c != nil && c.ID != w.state.waitingContainerIDs[name] &&
			c.State != podplan.Created && !w.state.runningHooks[name] {
			delete(w.state.waitingReasons, name) // that was said of the container before
		}
	}
	w.updateStatus(in, desired)
}
