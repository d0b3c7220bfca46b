package scheduler

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/metrics"
)

// maxEventNote is the most an Event's note may hold (API validation of events.k8s.io).
const maxEventNote = 1024

// attemptFacts states what became of attempts to schedule a Pod: one method for each fact, called
// once where the fact becomes true. Its sinks are the log, the journal, Events and metrics. Any
// goroutine may call it.
type attemptFacts struct {
	journal journal.Sink
	writer  bind.APIWriter // of Scheduled events
	metrics *metrics.Attempts
}

func newAttemptFacts(j journal.Sink, w bind.APIWriter, m *metrics.Attempts) *attemptFacts {
	return &attemptFacts{journal: j, writer: w, metrics: m}
}

// placed states that the scheduling cycle chose a node.
func (s *attemptFacts) placed(a *schedulingAttempt) { s.journal.Put(podRef(a.pod()), a.fact) }

// bound states that the API server took the binding.
func (s *attemptFacts) bound(ctx context.Context, a *schedulingAttempt, c frameworkruntime.PodCycle, f journal.Bound) {
	klog.FromContext(ctx).V(2).Info("Successfully bound pod to node", "pod", klog.KObj(c.Pod), "node", c.Node,
		"evaluatedNodes", a.fact.Visited, "feasibleNodes", a.fact.Feasible)
	s.journal.Put(podRef(c.Pod), f)
	s.writer.ScheduledEvent(ctx, a.profile.Name, c, func() {
		a.profile.Handle.EventRecorder().Eventf(c.Pod, nil, v1.EventTypeNormal, "Scheduled", "Binding",
			"Successfully assigned %v/%v to %v", c.Pod.Namespace, c.Pod.Name, c.Node)
	})
	s.metrics.Observe(a.metric(metrics.Scheduled))
	s.metrics.ObserveScheduled(a.entry.Attempts, a.entry.AddedAt, a.entry.FlushedFromUnschedulable)
}

// failed states that an attempt failed: a plugin refused the Pod, or an error came up. The Event
// follows with unscheduled, when the Pod is still there.
func (s *attemptFacts) failed(ctx context.Context, a *schedulingAttempt, f failure) {
	s.journal.Put(podRef(a.pod()), f.fact)
	logger := klog.FromContext(ctx).WithValues("pod", klog.KObj(a.pod()))
	if f.status.IsRejected() {
		logger.V(2).Info("Unable to schedule pod; no fit; waiting", "err", f.message)
		s.metrics.Observe(a.metric(metrics.Unschedulable))
		return
	}
	logger.Error(f.status.AsError(), "Error scheduling pod; retrying")
	s.metrics.Observe(a.metric(metrics.Error))
}

// unscheduled states that p, the Pod as it is now, went back to the queue after a failure.
func (s *attemptFacts) unscheduled(a *schedulingAttempt, p *v1.Pod, f failure) {
	a.profile.Handle.EventRecorder().Eventf(p, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s",
		truncate(f.message))
}

// skippedDeleting states that a Pod is not scheduled because it is being deleted.
func (s *attemptFacts) skippedDeleting(a *schedulingAttempt) {
	p := a.pod()
	a.profile.Handle.EventRecorder().Eventf(p, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling",
		"skip schedule deleting pod: %v/%v", p.Namespace, p.Name)
}

// preempting states whose eviction makes room for a preemptor.
func (s *attemptFacts) preempting(preemptor *v1.Pod, node string, victims []*v1.Pod) {
	f := journal.Preempting{Node: node}
	for _, v := range victims {
		f.Victims = append(f.Victims, pod.Key(v))
	}
	s.journal.Put(podRef(preemptor), f)
}

// preempted states why a victim was evicted.
func (s *attemptFacts) preempted(victim *v1.Pod, why journal.Preempted) {
	s.journal.Put(podRef(victim), why)
}

// waitingOnPermit states that a Pod has a node and waits at Permit.
func (s *attemptFacts) waitingOnPermit(c frameworkruntime.PodCycle, w frameworkruntime.PermitWait) {
	f := journal.Waiting{For: "plugin " + w.Plugin + " at Permit, with node " + c.Node + " held", Since: time.Now(),
		Next: "after " + w.Timeout.String() + " the Pod gives the node back and is tried again"}
	if w.Message != "" {
		f.For += ": " + w.Message
	}
	s.journal.Put(podRef(c.Pod), f)
}

func podRef(p *v1.Pod) journal.Ref { return pod.Ref(p) }

func truncate(note string) string {
	const more = " ..."
	if len(note) <= maxEventNote {
		return note
	}
	return fmt.Sprintf("%s%s", note[:maxEventNote-len(more)], more)
}
