package scheduler

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// maxEventNote is the most an Event's note may hold (API validation of events.k8s.io).
const maxEventNote = 1024

// failure is why an attempt failed.
type failure struct {
	status               *framework.Status
	message              string
	unschedulablePlugins sets.Set[string]
	pendingPlugins       sets.Set[string]
	nominatedNode        *string // node to promise; nil leaves the promise as it is
}

// handleBindingCycleError tells that a chosen node did not get the Pod, and puts it back.
func (s *Scheduler) handleBindingCycleError(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle,
	f *bind.BindFailure) {
	if ctx.Err() != nil {
		return // shutting down: the next scheduler finds the Pod as it was
	}
	s.Journal.Put(podRef(c.Pod), journal.BindFailed{Node: c.Node, Point: f.Point, Plugin: f.Status.Plugin(),
		Error: f.Status.Message()})
	out := failureOf(f)
	out.nominatedNode = new("") // it is not going to be bound there, as upstream says too
	s.handleSchedulingFailure(ctx, a, out)
}

// failureOf is the outcome of a node that did not get its Pod.
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

// handleSchedulingFailure puts a Pod back into the queue and tells why: event, condition, log.
func (s *Scheduler) handleSchedulingFailure(ctx context.Context, a *schedulingAttempt, out failure) {
	reason, result := v1.PodReasonSchedulerError, "error"
	logger := klog.FromContext(ctx).WithValues("pod", klog.KObj(a.Pod()))
	if out.status.IsRejected() {
		reason, result = v1.PodReasonUnschedulable, "unschedulable"
		logger.V(2).Info("Unable to schedule pod; no fit; waiting", "err", out.message)
	} else {
		logger.Error(out.status.AsError(), "Error scheduling pod; retrying")
	}
	s.metrics.observeAttempt(a, result)
	p := s.requeue(a, out)
	if p == nil {
		return
	}
	a.profile.Handle.EventRecorder().Eventf(p, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s",
		truncate(out.message))
	s.statuses.Put(bind.StatusUpdate{Pod: p, Nominated: out.nominatedNode, Condition: v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, ObservedGeneration: p.Generation, Reason: reason,
		Message: out.message,
	}})
}

// requeue returns the Pod as it is now to the queue; nil when it is gone or has a node.
func (s *Scheduler) requeue(a *schedulingAttempt, out failure) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.latestPod(a.Pod())
	if p == nil || p.UID != a.Pod().UID || p.Spec.NodeName != "" {
		s.queue.Done(a.Pod().UID)
		return nil
	}
	a.Info, _ = snapshot.NewPodInfo(p)
	if out.nominatedNode != nil {
		s.nominator.AddNominatedPod(a.Info, *out.nominatedNode)
	}
	s.recordMoves(s.queue.AddUnschedulableIfNotPresent(a.Entry,
		queue.Failure{UnschedulablePlugins: out.unschedulablePlugins, PendingPlugins: out.pendingPlugins}, time.Now()))
	return p
}

// latestPod gives the Pod as the informer has it; nil when it is gone.
func (s *Scheduler) latestPod(p *v1.Pod) *v1.Pod {
	now, err := s.pods.Pods(p.Namespace).Get(p.Name)
	if err != nil {
		return nil
	}
	return now
}

func truncate(note string) string {
	const more = " ..."
	if len(note) <= maxEventNote {
		return note
	}
	return fmt.Sprintf("%s%s", note[:maxEventNote-len(more)], more)
}
