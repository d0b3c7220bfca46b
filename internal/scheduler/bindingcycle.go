package scheduler

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
)

const (
	// maxBindBatch is how many inline bindings are gathered before they are written, while more
	// Pods are there to be scheduled.
	maxBindBatch = 16

	// maxBindBatchWait is how long they are gathered.
	maxBindBatchWait = 2 * time.Millisecond
)

// inFlightQueue is the scheduling queue as the binding cycle sees it.
type inFlightQueue interface {
	// done ends the time in flight of a Pod: a failed binding is retried whatever happened
	// meanwhile.
	done(p *v1.Pod)
}

// bindingCycle binds Pods that the scheduling cycle has assumed and reserved, beside later cycles.
//
//	scheduling cycle: AssumeAndReserve (Reserve, Permit)
//	        │
//	      start ── Pod waits at Permit, a plugin prepares in PreBind, a status write is
//	        │      under way, or the bind plugin cannot bind inline ──► bindAsync
//	        │                                                              │ goroutine
//	        ▼                                                              ▼
//	   bindInline ── not sent, or "Retry-After" ───────► bindAsync      WaitOnPermit
//	        │                                                              │
//	   written with up to maxBindBatch others                           PreBind
//	        │                                                              │
//	        ▼                                                              ▼
//	   answer of the API server ◄───────────────────────────────────────  Bind
//	        │                  │
//	      bound             refused, or any point before it failed
//	        │                  │
//	     PostBind     bind.Binder rolls back: Unreserve, ForgetPod
//	        │                  │
//	   facts.bound    failures.handleBindingCycleError: back to the queue
//
// The rollback of a failed binding is bind.Binder's (HandleBindFailure for the inline path,
// BindingCycle itself for the other). start, flush and flushLate are the scheduling goroutine's.
type bindingCycle struct {
	binder     *bind.Binder
	statuses   *bind.PodStatusWriter
	writer     bind.APIWriter
	queue      inFlightQueue
	failures   failureHandler
	facts      *attemptFacts
	goroutines *goroutines

	batched   int       // inline bindings that are not written yet
	batchedAt time.Time // when the first of them came
}

// start binds a Pod that has been assumed and reserved on a node, and does not wait for it. f is
// the journal's fact once it is bound.
func (b *bindingCycle) start(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle, f journal.Bound) {
	if !b.bindInline(ctx, a, c, f) {
		b.bindAsync(ctx, a, c, f)
	}
}

// bindAsync runs the whole binding cycle in a goroutine, which waits at Permit and in PreBind.
func (b *bindingCycle) bindAsync(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle,
	f journal.Bound) {
	b.goroutines.start("binding", func() {
		b.statuses.WaitForWrite(ctx, c.Pod.UID)
		if a.profile.WaitsBeforeBind(ctx, c) {
			b.statuses.SetNominatedNodeName(ctx, c.Pod, c.Node)
		}
		if f := b.binder.BindingCycle(ctx, a.profile, c); f != nil {
			b.failures.handleBindingCycleError(ctx, a, c, f)
			return
		}
		b.bound(ctx, a, c, f)
	})
}

// bindInline binds a Pod for which nothing is left to do but Bind, without a goroutine that waits
// for the answer. False: nothing was done, and bindAsync must bind it.
func (b *bindingCycle) bindInline(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle,
	f journal.Bound) bool {
	if !b.statuses.WritesNothing(c.Pod.UID) {
		return false
	}
	release := b.goroutines.hold()
	began := a.profile.RunBindPluginsInline(ctx, c, func(done bool, status *framework.Status) {
		defer release()
		switch {
		case !done:
			b.bindAsync(ctx, a, c, f)
		case status.IsSuccess():
			a.profile.RunPostBindPlugins(ctx, c)
			b.bound(ctx, a, c, f)
		default: // the rollback runs plugins, and this goroutine must not be held up
			b.goroutines.start("binding", func() {
				failed := b.binder.HandleBindFailure(ctx, a.profile, c, status)
				b.failures.handleBindingCycleError(ctx, a, c, failed)
			})
		}
	})
	if !began {
		release()
		return false
	}
	b.queue.done(c.Pod)
	if b.batched == 0 {
		b.batchedAt = time.Now()
	}
	if b.batched++; b.batched >= maxBindBatch {
		b.flush()
	}
	return true
}

// bound states that the API server took the binding.
func (b *bindingCycle) bound(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle, f journal.Bound) {
	f.Took = journal.Took(time.Since(a.entry.AddedAt))
	b.facts.bound(ctx, a, c, f)
}

// flushLate writes the inline bindings that have waited for company long enough at now.
func (b *bindingCycle) flushLate(now time.Time) {
	if b.batched > 0 && now.Sub(b.batchedAt) > maxBindBatchWait {
		b.flush()
	}
}

// flush writes the inline bindings that are gathered.
func (b *bindingCycle) flush() {
	if b.batched > 0 {
		b.batched = 0
		b.writer.Flush()
	}
}
