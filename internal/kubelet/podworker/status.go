package podworker

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/reason"
)

// reportedStatus is the newest status that was handed to the writer, and what it says of failed
// tries.
type reportedStatus struct {
	status *v1.PodStatus
	tries  map[string]reportedTry
	// why containers backed off at the last decision that was not to end the Pod
	backOffs map[string]podstatus.WaitingReason
}

// reportedTry is the last two failures of one name.
type reportedTry struct {
	count            int
	latest, previous *reason.Refusal
}

// waitingReason is what the status says of a failed try: how it ended; of an image that cannot be
// pulled how the try before ended, so that reason and message stand until the next one, as
// upstream's do.
func (t *reportedStatus) waitingReason(name string, try podplan.Try) *reason.Refusal {
	last := t.tries[name]
	if last.count != try.Count {
		if try.Count < last.count {
			last.latest = nil
		}
		last = reportedTry{count: try.Count, latest: try.Refusal, previous: last.latest}
		if t.tries == nil {
			t.tries = map[string]reportedTry{}
		}
		t.tries[name] = last
	}
	if last.previous != nil && isPullFailure(last.latest.Code) && isPullFailure(last.previous.Code) {
		return last.previous
	}
	return try.Refusal
}

func isPullFailure(c reason.Code) bool {
	return c == reason.ErrImagePull || c == reason.ImagePullBackOff
}

// overlay lays the newest told status over what the API has: the kubelet's fields from the former,
// others' conditions from the latter.
func (t reportedStatus) overlay(api v1.PodStatus) v1.PodStatus {
	s := *t.status.DeepCopy()
	owned := map[v1.PodConditionType]bool{}
	for _, c := range podstatus.OwnedConditions {
		owned[c] = true
	}
	var out []v1.PodCondition
	for _, c := range s.Conditions {
		if c.Type == v1.DisruptionTarget && (s.Phase == v1.PodFailed || s.Phase == v1.PodSucceeded) {
			owned[c.Type] = true // it came with the terminal phase; the API may not have it yet
		}
	}
	for _, c := range api.Conditions {
		if !owned[c.Type] {
			out = append(out, c)
		}
	}
	for _, c := range s.Conditions {
		if owned[c.Type] {
			out = append(out, c)
		}
	}
	s.Conditions = out
	s.NominatedNodeName, s.ResourceClaimStatuses, s.ExtendedResourceClaimStatus = api.NominatedNodeName,
		api.ResourceClaimStatuses, api.ExtendedResourceClaimStatus
	if (api.Phase == v1.PodFailed || api.Phase == v1.PodSucceeded) && s.Phase != api.Phase {
		s.Phase, s.Reason, s.Message = api.Phase, api.Reason, api.Message
	}
	return s
}

// updateStatus derives the status, hands it to the writer when there is somebody to read it, and
// states what changed.
func (w *worker) updateStatus(in podplan.In, desired *UpdatePodOptions) {
	w.reportExits(in)
	if w.state.facts.Stage() == podplan.Waiting && in.End == nil && w.state.refusal == nil {
		w.publish(in.Pod)
		return // nothing is known yet
	}
	end := podplan.EffectiveTermination(in)
	facts := w.state.facts
	if w.state.exits.deferPhase {
		facts.ContainersStopped, w.state.exits.deferPhase = time.Time{}, false
	}
	s := podstatus.Generate(podstatus.In{
		Pod: in.Pod, Observed: in.Observed, Facts: facts, End: end, Health: in.Health, Waiting: w.state.waitingReasons,
		BackOffs: w.interruptedBackOffs(in), RunningHooks: w.state.runningHooks, Refusal: w.state.refusal,
		Node: w.pool.d.Node(), Now: in.Now, Resizes: w.state.allocation.resizeStatus(in),
	})
	w.reportStatusChanges(in.Pod.Status, s)
	changed := w.state.reported.status == nil || !equality.Semantic.DeepEqual(*w.state.reported.status, s)
	w.state.reported.status = &s
	pod := *in.Pod
	pod.Status = s
	w.publish(&pod)
	if end != nil && !w.state.exits.selfTerminated && w.state.facts.ContainersStopped.IsZero() &&
		!anyAlive(in.Observed) {
		return // all but the sandbox has been stopped: the last status follows at once
	}
	if desired.hasAPIStatus() && (changed || !equality.Semantic.DeepEqual(desired.Pod.Status, s)) {
		w.pool.d.Statuses.SetPodStatus(desired.Pod, s)
	}
}

// exitShownFirst tells whether a container's end is to be shown before its back-off is.
func exitShownFirst(in podplan.In, b journal.BackingOff) bool {
	c := in.Observed.Latest(b.Container)
	return c != nil && in.Now.Before(podplan.BackOffShown(in.Observed, c, b.Until))
}

func anyAlive(seen podplan.Observed) bool {
	for _, c := range seen.Containers {
		if c.State != podplan.Exited {
			return true
		}
	}
	return len(seen.Containers) == 0
}

// waitingReasons says why containers that do not run do not: a failed try, or a back-off of the
// plan. While one is being started again its old reason stays.
func (w *worker) waitingReasons(in podplan.In, plan podplan.Plan) map[string]podstatus.WaitingReason {
	out := map[string]podstatus.WaitingReason{}
	for _, a := range plan.Do {
		if s, ok := a.(podplan.Start); ok {
			if why, had := w.state.waitingReasons[s.Name]; had {
				out[s.Name] = why
			}
		}
	}
	for name, t := range in.Tries {
		if !strings.HasPrefix(name, "/") {
			refusal := w.state.reported.waitingReason(name, t)
			out[name] = podstatus.WaitingReason{Reason: string(refusal.Code), Message: refusal.Detail}
		}
	}
	for name := range w.state.reported.tries {
		if _, failed := in.Tries[name]; !failed {
			delete(w.state.reported.tries, name)
		}
	}
	backOffs := map[string]podstatus.WaitingReason{}
	for _, f := range plan.Facts {
		if b, ok := f.(journal.BackingOff); ok {
			backOffs[b.Container] = podstatus.WaitingReason{Reason: b.What, Message: b.Message}
			if !exitShownFirst(in, b) {
				out[b.Container] = backOffs[b.Container]
			}
		}
	}
	if podplan.EffectiveTermination(in) == nil {
		w.state.reported.backOffs = backOffs
	}
	w.state.waitingContainerIDs = map[string]string{}
	for name := range out {
		if c := in.Observed.Latest(name); c != nil {
			w.state.waitingContainerIDs[name] = c.ID
		}
	}
	return out
}

// interruptedBackOffs are the back-offs that the end of a Pod cut short, unless somebody deleted
// it: then how its containers ended is shown. So does upstream.
func (w *worker) interruptedBackOffs(in podplan.In) map[string]podstatus.WaitingReason {
	if podplan.EffectiveTermination(in) == nil || in.Pod.DeletionTimestamp != nil {
		return nil
	}
	return w.state.reported.backOffs
}

// reportFacts states the facts of a plan that the last plan did not have, and tells their events.
func (w *worker) reportFacts(in podplan.In, plan podplan.Plan) {
	reported := map[string]bool{}
	for key := range w.state.reportedFacts {
		if strings.HasPrefix(key, "wait ") {
			reported[key] = true
		}
	}
	for _, f := range plan.Facts {
		key := journal.Kind(f) + f.Line()
		if b, ok := f.(journal.BackingOff); ok {
			key += b.Until.String()
		}
		reported[key] = true
		if w.state.reportedFacts[key] {
			continue
		}
		w.put(f)
		if b, ok := f.(journal.BackingOff); ok && !w.backOffReportedAtKill(in, b.Container) {
			w.pool.d.Events.BackOff(in.Pod, b.Container, podplan.FullName(in.Pod))
		}
	}
	w.state.reportedFacts = reported
}

// backOffReportedAtKill tells whether the event of a container's back-off came when it was stopped.
func (w *worker) backOffReportedAtKill(in podplan.In, container string) bool {
	c := in.Observed.Latest(container)
	if c == nil || !w.state.exits.backOffReported[c.ID] {
		return false
	}
	delete(w.state.exits.backOffReported, c.ID)
	return true
}

// reportStatusChanges states what changed between two statuses.
func (w *worker) reportStatusChanges(old, s v1.PodStatus) {
	if old.Phase != s.Phase {
		w.put(journal.PhaseChanged{Phase: string(s.Phase), Reason: s.Reason, Message: s.Message})
	}
	for _, c := range s.Conditions {
		was := v1.PodCondition{}
		for _, o := range old.Conditions {
			if o.Type == c.Type {
				was = o
			}
		}
		if was.Status != c.Status {
			w.put(journal.ConditionChanged{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason,
				Message: c.Message})
		}
	}
}

// reportExits states which containers have ended since the status before.
func (w *worker) reportExits(in podplan.In) {
	known := map[string]bool{}
	for _, list := range [][]v1.ContainerStatus{in.Pod.Status.InitContainerStatuses, in.Pod.Status.ContainerStatuses,
		in.Pod.Status.EphemeralContainerStatuses} {
		for _, st := range list {
			for _, t := range []*v1.ContainerStateTerminated{st.State.Terminated, st.LastTerminationState.Terminated} {
				if t != nil {
					known[t.ContainerID] = true
				}
			}
		}
	}
	for _, c := range in.Observed.Containers {
		key := "wait exit " + c.ID
		if c.State != podplan.Exited || c.Sandbox == "" || w.state.reportedFacts[key] {
			continue
		}
		w.state.reportedFacts[key] = true
		if _, alive := known[w.pool.d.Node().Runtime+"://"+c.ID]; !alive {
			f := journal.ContainerExited{Container: c.Name, ID: c.ID, ExitCode: c.Exit.Code, Reason: c.Exit.Reason,
				Message: c.Exit.Message}
			if w.pool.d.Memory != nil {
				f.Memory = w.pool.d.Memory(in.Pod)
			}
			w.put(f)
		}
	}
}
