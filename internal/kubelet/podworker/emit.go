package podworker

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podview"
	"github.com/gantry-project/gantry/internal/kubelet/podworker/planrunner"
	"github.com/gantry-project/gantry/internal/pod"
)

// emit states a fact about the Pod p. It is the only call that does: journal, event, log line and
// metric are its sinks, and which of them a kind of fact has beside the journal is said here.
func (w *worker) emit(ctx context.Context, p *v1.Pod, f journal.Fact) {
	d := &w.pool.d
	if exited, ok := f.(journal.ContainerExited); ok && d.Memory != nil {
		exited.Memory = d.Memory(p)
		f = exited
	}
	d.Journal.Put(w.ref, f)
	switch f := f.(type) {
	case journal.Accepted:
		d.Metrics.Admitted(p)
	case journal.Refused:
		d.Events.Pod(p, v1.EventTypeWarning, f.Reason, f.Message)
		klog.FromContext(ctx).Info("Pod refused", "reason", f.Reason, "detail", f.Message)
	}
}

// emitAll states what podview.Next returned, in its order.
func (w *worker) emitAll(ctx context.Context, desired *UpdatePodOptions, p *v1.Pod, facts []podview.Fact) {
	for _, f := range facts {
		switch f := f.(type) {
		case podview.Journal:
			w.emit(ctx, p, f.Fact)
		case podview.BackOff:
			w.pool.d.Events.BackOff(p, f.Container, podplan.FullName(p))
		case podview.WriteStatus:
			w.pool.d.Statuses.SetPodStatus(desired.Pod, f.PodStatus)
		}
	}
}

// emitDeadlineExceeded tells that a Pod ends for its deadline; upstream tells it at each step of
// the end, so this is an event without a fact.
func (w *worker) emitDeadlineExceeded(in podplan.In) {
	s := in.Pod.Status
	if pod.IsPhaseTerminal(s.Phase) && s.Reason != podplan.DeadlineReason {
		return // it had ended before
	}
	if end := podplan.EffectiveTermination(in); end != nil && end.Reason == podplan.DeadlineReason &&
		in.Pod.DeletionTimestamp == nil {
		w.pool.d.Events.DeadlineExceeded(in.Pod, end.Reason, end.Message)
	}
}

// emitPreempts tells that another Pod has to go for this one.
func (w *worker) emitPreempts(victim *v1.Pod) {
	w.pool.d.Events.Pod(victim, v1.EventTypeWarning, admit.Preempting, admit.PreemptMessage)
	w.pool.d.Journal.Put(w.ref, journal.Acted{Controller: "kubelet",
		Action: "preempts " + victim.Namespace + "/" + victim.Name, Message: admit.PreemptMessage})
}

// emitFailed tells that an action failed, otherwise than it did last.
func (w *worker) emitFailed(ctx context.Context, p *v1.Pod, r planrunner.Result, why journal.Waiting) {
	klog.FromContext(ctx).Info("Cannot go on with the Pod", "action", r.Failed.Line(), "err", r.Err)
	w.emit(ctx, p, why)
}
