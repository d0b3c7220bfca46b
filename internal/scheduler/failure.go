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
	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// noteLimit is the most an Event's note may hold (API validation of events.k8s.io).
const noteLimit = 1024

// outcome is why an attempt failed.
type outcome struct {
	status    *framework.Status
	message   string
	rejectors sets.Set[string]
	pending   sets.Set[string]
	nominate  *string // node to promise; nil leaves the promise as it is
}

// unbound tells that a chosen node did not get the Pod, and puts it back.
func (s *Scheduler) unbound(ctx context.Context, a *attempt, c glue.Cycle, f *bind.Failure) {
	if ctx.Err() != nil {
		return // shutting down: the next scheduler finds the Pod as it was
	}
	s.Journal.Put(ref(c.Pod), journal.BindFailed{Node: c.Node, Point: f.Point, Plugin: f.Status.Plugin(), Error: f.Status.Message()})
	out := rejection(f)
	out.nominate = new("") // it is not going to be bound there, as upstream says too
	s.failed(ctx, a, out)
}

// rejection is the outcome of a node that did not get its Pod.
func rejection(f *bind.Failure) outcome {
	out := outcome{status: f.Status, message: f.Status.Message(), rejectors: sets.Set[string]{}, pending: sets.Set[string]{}}
	if f.Rejected() {
		if f.Status.Code() == framework.Pending {
			out.pending.Insert(f.Status.Plugin())
		} else {
			out.rejectors.Insert(f.Status.Plugin())
		}
		out.message = "0/1 nodes are available: " + place.CountReasons([]*framework.Status{f.Status}, nil, 0)[0] + "."
	}
	return out
}

// failed puts a Pod back into the queue and tells why: event, condition, log.
func (s *Scheduler) failed(ctx context.Context, a *attempt, out outcome) {
	reason, result := v1.PodReasonSchedulerError, "error"
	logger := klog.FromContext(ctx).WithValues("pod", klog.KObj(a.Pod()))
	if out.status.IsRejected() {
		reason, result = v1.PodReasonUnschedulable, "unschedulable"
		logger.V(2).Info("Unable to schedule pod; no fit; waiting", "err", out.message)
	} else {
		logger.Error(out.status.AsError(), "Error scheduling pod; retrying")
	}
	s.meter.attempt(a, result)
	p := s.putBack(a, out)
	if p == nil {
		return
	}
	a.profile.Handle.EventRecorder().Eventf(p, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", truncate(out.message))
	s.statuses.Put(bind.Wish{Pod: p, Nominated: out.nominate, Condition: v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, ObservedGeneration: p.Generation, Reason: reason, Message: out.message,
	}})
}

// putBack returns the Pod as it is now to the queue; nil when it is gone or has a node.
func (s *Scheduler) putBack(a *attempt, out outcome) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.latest(a.Pod())
	if p == nil || p.UID != a.Pod().UID || p.Spec.NodeName != "" {
		s.queue.Done(a.Pod().UID)
		return nil
	}
	a.Info, _ = snapshot.NewPodInfo(p)
	if out.nominate != nil {
		s.nominated.Set(a.Info, *out.nominate)
	}
	s.tell(s.queue.Return(a.Entry, queue.Failed{Rejectors: out.rejectors, Pending: out.pending}, time.Now()))
	return p
}

// latest gives the Pod as the informer has it; nil when it is gone.
func (s *Scheduler) latest(p *v1.Pod) *v1.Pod {
	now, err := s.pods.Pods(p.Namespace).Get(p.Name)
	if err != nil {
		return nil
	}
	return now
}

func truncate(note string) string {
	const more = " ..."
	if len(note) <= noteLimit {
		return note
	}
	return fmt.Sprintf("%s%s", note[:noteLimit-len(more)], more)
}
