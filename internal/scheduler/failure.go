package scheduler

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// failure is why an attempt failed.
type failure struct {
	status               *framework.Status
	message              string       // of the condition and the Event
	fact                 journal.Fact // for the journal
	unschedulablePlugins sets.Set[string]
	pendingPlugins       sets.Set[string]
	nominatedNode        *string // node to nominate the Pod to, empty: none; nil leaves its nomination as it is
}

// failureHandler puts Pods back whose attempt failed.
type failureHandler interface {
	// handleSchedulingFailure puts a Pod back into the queue that has no node, and says why.
	handleSchedulingFailure(ctx context.Context, a *schedulingAttempt, f failure)
	// handleBindingCycleError does so for a Pod that lost the node it had; it has been rolled back.
	handleBindingCycleError(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle,
		f *bind.BindFailure)
}

// failureQueue is the scheduling queue as the failure handler sees it.
type failureQueue interface {
	// requeue returns the Pod of an attempt to the queue as latest gives it, with the nomination
	// that f asks for. The Pod as it is now; nil when it is gone or has a node.
	requeue(a *schedulingAttempt, f failure, latest func(*v1.Pod) *v1.Pod) *v1.Pod
}

// podStatuses takes in what is to be written into a Pod's status, and does not wait.
type podStatuses interface{ Put(u bind.StatusUpdate) }

// failures is the failureHandler. Scheduling and binding cycles call it, at the same time.
type failures struct {
	queue    failureQueue
	statuses podStatuses
	facts    *attemptFacts
	latest   func(*v1.Pod) *v1.Pod
}

var _ failureHandler = failures{}

func newFailures(q failureQueue, s podStatuses, f *attemptFacts, latest func(*v1.Pod) *v1.Pod) failures {
	return failures{queue: q, statuses: s, facts: f, latest: latest}
}

// handleSchedulingFailure implements failureHandler: journal, log and metric state the failure, the
// Pod goes back to the queue, Event and condition tell its owner.
func (h failures) handleSchedulingFailure(ctx context.Context, a *schedulingAttempt, f failure) {
	h.facts.failed(ctx, a, f)
	p := h.queue.requeue(a, f, h.latest)
	if p == nil {
		return
	}
	h.facts.unscheduled(a, p, f)
	reason := v1.PodReasonSchedulerError
	if f.status.IsRejected() {
		reason = v1.PodReasonUnschedulable
	}
	h.statuses.Put(bind.StatusUpdate{Pod: p, Nominated: f.nominatedNode, Condition: v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, ObservedGeneration: p.Generation, Reason: reason,
		Message: f.message,
	}})
}

// handleBindingCycleError implements failureHandler. bind.Binder has rolled the binding back
// (Unreserve, ForgetPod); here the Pod loses its nomination and goes back to the queue.
func (h failures) handleBindingCycleError(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle,
	f *bind.BindFailure) {
	if ctx.Err() != nil {
		return // shutting down: the next scheduler finds the Pod as it was
	}
	out := failureOf(f)
	out.fact = journal.BindFailed{Node: c.Node, Point: f.Point, Plugin: f.Status.Plugin(), Error: f.Status.Message()}
	out.nominatedNode = new("") // as upstream clears it
	h.handleSchedulingFailure(ctx, a, out)
}

// failureOf is the failure of a Pod whose node a plugin or an error took from it.
func failureOf(f *bind.BindFailure) failure {
	out := failure{status: f.Status, message: f.Status.Message(), unschedulablePlugins: sets.Set[string]{},
		pendingPlugins: sets.Set[string]{}}
	if f.Rejected() {
		if f.Status.Code() == framework.Pending {
			out.pendingPlugins.Insert(f.Status.Plugin())
		} else {
			out.unschedulablePlugins.Insert(f.Status.Plugin())
		}
		out.message = "0/1 nodes are available: " + schedule.CountReasons([]*framework.Status{f.Status}, nil,
			0)[0] + "."
	}
	return out
}

// requeue implements failureQueue.
func (s *cacheAndQueue) requeue(a *schedulingAttempt, f failure, latest func(*v1.Pod) *v1.Pod) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := latest(a.pod())
	if p == nil || p.UID != a.pod().UID || p.Spec.NodeName != "" {
		s.queue.Done(a.pod().UID)
		return nil
	}
	a.entry.Info, _ = snapshot.NewPodInfo(p)
	if f.nominatedNode != nil {
		s.nominator.AddNominatedPod(a.entry.Info, *f.nominatedNode)
	}
	s.recordMoves(s.queue.AddUnschedulableIfNotPresent(a.entry,
		queue.Failure{UnschedulablePlugins: f.unschedulablePlugins, PendingPlugins: f.pendingPlugins}, s.now()))
	return p
}

// latestPod gives Pods as the informer has them; nil for those that are gone.
func latestPod(pods corelisters.PodLister) func(*v1.Pod) *v1.Pod {
	return func(p *v1.Pod) *v1.Pod {
		now, err := pods.Pods(p.Namespace).Get(p.Name)
		if err != nil {
			return nil
		}
		return now
	}
}
