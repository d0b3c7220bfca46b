package podworker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podview"
	"github.com/gantry-project/gantry/internal/kubelet/podworker/planrunner"
)

// execute has a plan carried out and listens to the mailbox meanwhile: a stricter update cancels
// what is under way, anything new is shown.
func (w *worker) execute(ctx context.Context, desired *UpdatePodOptions, plan podplan.Plan) {
	p := w.pod(desired)
	w.emit(ctx, p, plan.Fact())
	w.view, _ = podview.Next(w.view, podview.PlanStarted{Do: plan.Do, Observed: w.runtime.seen})
	startedAt, what := time.Now(), operation(desired, plan)
	defer func() { w.pool.d.Metrics.PodWorkerDone(what, time.Since(startedAt)) }()
	hooksCtx, endHooks := context.WithCancel(ctx)
	defer endHooks()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hooks := make(chan hookEvent)
	job := podactions.Job{Pod: p, Observed: w.runtime.seen, Applied: w.allocation.Applied(), Hooks: hooksCtx,
		HookRunning: func(c string, runs bool) { hooks <- hookEvent{c, runs} }}
	state := w.stateFor(desired, plan.Do)
	run := planrunner.Start(ctx, planrunner.Plan{Do: plan.Do, Job: job, Actions: w.pool.d.Actions,
		Begin:   func(what string, limit time.Duration) func() { return w.beginStep(state, what, limit) },
		Resized: w.pool.d.Metrics.Resized})
	for {
		select {
		case h := <-hooks:
			w.lastPlan.runningHooks[h.container] = h.running
		case r := <-run.Result():
			w.record(ctx, job, r)
			return
		case <-w.mailbox.Wakeups():
			why, newer := w.takeWakeReasons(run.LastAction()), w.mailbox.Value()
			if stricter(newer.Termination, desired.Termination) {
				cancel()
				grace := time.Until(newer.Termination.Deadline())
				defer time.AfterFunc(grace, endHooks).Stop()
				limit := planrunner.StepTimeout
				if slices.Contains(slices.Collect(maps.Values(w.lastPlan.runningHooks)), true) {
					limit += max(grace, 0)
				}
				defer w.beginStep(TerminatingPod, "the end of what was under way", limit)()
				desired = newer
				continue
			}
			if why != 0 {
				w.showProgress(ctx, newer)
			}
		}
	}
}

type hookEvent struct {
	container string
	running   bool
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

// showProgress shows what has happened while a plan is carried out: nothing is decided.
func (w *worker) showProgress(ctx context.Context, desired *UpdatePodOptions) {
	if err := w.observe(ctx); err != nil {
		return
	}
	in := w.planInput(desired, time.Now())
	w.step(ctx, desired, in.Pod, podview.Progressed{Look: w.look(desired, in)})
}

// record turns the result of a plan into facts, failed tries and actuated resources.
func (w *worker) record(ctx context.Context, j podactions.Job, r planrunner.Result) {
	now, p := time.Now(), j.Pod
	w.runtime.fresh = w.runtime.fresh && r.RuntimeUntouched()
	clear(w.lastPlan.runningHooks)
	w.lastPlan.done = r.Done
	for _, a := range r.Done {
		w.tries.Succeeded(a)
		switch a := a.(type) {
		case podplan.PrepareVolumes:
			w.facts.VolumesReady = now
		case podplan.Release:
			w.facts.Released = now
			if a.Logs {
				w.facts.Removed = now
			}
		}
	}
	if !r.UncertainSandbox.AbandonedAt.IsZero() {
		w.facts.UncertainSandbox = r.UncertainSandbox
	}
	if r.Failed != nil && ctx.Err() == nil {
		if refusal, news := w.tries.Failed(r.Failed, r.Err, j.Observed.At, now); news {
			w.emitFailed(ctx, p, r, journal.Waiting{For: r.Failed.Line() + ": " + refusal.Error(), Since: now,
				Next: "tries again", Fix: refusal.Fix})
		}
	}
	var facts []podview.Fact
	w.view, facts = podview.Next(w.view, podview.PlanEnded{Done: r.Done})
	w.emitAll(ctx, w.mailbox.Value(), p, facts)
	w.allocation.Actuated(p, r.Done)
}
