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

// told is the newest status that was handed to the writer, and what it says of failed tries.
type told struct {
	status *v1.PodStatus
	tries  map[string]tryTold
	backs  map[string]podstatus.Why // why containers backed off at the last decision that was not to end the Pod
}

// tryTold is the last two failures of one name.
type tryTold struct {
	count       int
	now, before *reason.Refusal
}

// why is what the status says of a failed try: how it ended; of an image that cannot be pulled how the try before ended, so that reason and message stand until
// the next one, as upstream's do.
func (t *told) why(name string, try podplan.Try) *reason.Refusal {
	last := t.tries[name]
	if last.count != try.Count {
		if try.Count < last.count {
			last.now = nil
		}
		last = tryTold{count: try.Count, now: try.Refusal, before: last.now}
		if t.tries == nil {
			t.tries = map[string]tryTold{}
		}
		t.tries[name] = last
	}
	if last.before != nil && pulling(last.now.Code) && pulling(last.before.Code) {
		return last.before
	}
	return try.Refusal
}

func pulling(c reason.Code) bool { return c == reason.ErrImagePull || c == reason.ImagePullBackOff }

// over lays the newest told status over what the API has: the kubelet's fields from the former, others' conditions from the latter.
func (t told) over(api v1.PodStatus) v1.PodStatus {
	s := *t.status.DeepCopy()
	mine := map[v1.PodConditionType]bool{}
	for _, c := range podstatus.Owned {
		mine[c] = true
	}
	var out []v1.PodCondition
	for _, c := range s.Conditions {
		if c.Type == v1.DisruptionTarget && (s.Phase == v1.PodFailed || s.Phase == v1.PodSucceeded) {
			mine[c.Type] = true // it came with the terminal phase; the API may not have it yet
		}
	}
	for _, c := range api.Conditions {
		if !mine[c.Type] {
			out = append(out, c)
		}
	}
	for _, c := range s.Conditions {
		if mine[c.Type] {
			out = append(out, c)
		}
	}
	s.Conditions = out
	s.NominatedNodeName, s.ResourceClaimStatuses, s.ExtendedResourceClaimStatus = api.NominatedNodeName, api.ResourceClaimStatuses, api.ExtendedResourceClaimStatus
	if (api.Phase == v1.PodFailed || api.Phase == v1.PodSucceeded) && s.Phase != api.Phase {
		s.Phase, s.Reason, s.Message = api.Phase, api.Reason, api.Message
	}
	return s
}

// tellStatus derives the status, hands it to the writer when there is somebody to read it, and states what changed.
func (w *worker) tellStatus(in podplan.In, wish *Wish) {
	w.exits(in)
	if w.life.facts.Stage() == podplan.Waiting && in.End == nil && w.life.refusal == nil {
		w.show(in.Pod)
		return // nothing is known yet
	}
	end := podplan.Ending(in)
	facts := w.life.facts
	if w.life.ends.late {
		facts.AllStopped, w.life.ends.late = time.Time{}, false
	}
	s := podstatus.Generate(podstatus.In{
		Pod: in.Pod, Seen: in.Seen, Facts: facts, End: end, Health: in.Health, Waiting: w.life.waits,
		Backing: w.backing(in), Hooking: w.life.hooking, Refusal: w.life.refusal, Node: w.pool.d.Node(), Now: in.Now, Sizes: w.life.size.sizes(in),
	})
	w.changes(in.Pod.Status, s)
	changed := w.life.told.status == nil || !equality.Semantic.DeepEqual(*w.life.told.status, s)
	w.life.told.status = &s
	pod := *in.Pod
	pod.Status = s
	w.show(&pod)
	if end != nil && !w.life.ends.self && w.life.facts.AllStopped.IsZero() && !anyAlive(in.Seen) {
		return // all but the sandbox has been stopped: the last status follows at once
	}
	if wish.reported() && (changed || !equality.Semantic.DeepEqual(wish.Pod.Status, s)) {
		w.pool.d.Statuses.Set(wish.Pod, s)
	}
}

// justEnded tells whether a container's end is to be shown before its back-off is.
func justEnded(in podplan.In, b journal.BackingOff) bool {
	c := in.Seen.Latest(b.Container)
	return c != nil && in.Now.Before(podplan.BackOffShown(in.Seen, c, b.Until))
}

func anyAlive(seen podplan.Observed) bool {
	for _, c := range seen.Containers {
		if c.State != podplan.Exited {
			return true
		}
	}
	return len(seen.Containers) == 0
}

// waiting says why containers that do not run do not: a failed try, or a back-off of the plan. While one is being started again its old reason stays.
func (w *worker) waiting(in podplan.In, plan podplan.Plan) map[string]podstatus.Why {
	out := map[string]podstatus.Why{}
	for _, a := range plan.Do {
		if s, ok := a.(podplan.Start); ok {
			if why, had := w.life.waits[s.Name]; had {
				out[s.Name] = why
			}
		}
	}
	for name, t := range in.Tries {
		if !strings.HasPrefix(name, "/") {
			no := w.life.told.why(name, t)
			out[name] = podstatus.Why{Reason: string(no.Code), Message: no.Detail}
		}
	}
	for name := range w.life.told.tries {
		if _, failed := in.Tries[name]; !failed {
			delete(w.life.told.tries, name)
		}
	}
	backs := map[string]podstatus.Why{}
	for _, f := range plan.Say {
		if b, ok := f.(journal.BackingOff); ok {
			backs[b.Container] = podstatus.Why{Reason: b.What, Message: b.Message}
			if !justEnded(in, b) {
				out[b.Container] = backs[b.Container]
			}
		}
	}
	if podplan.Ending(in) == nil {
		w.life.told.backs = backs
	}
	w.life.waitOf = map[string]string{}
	for name := range out {
		if c := in.Seen.Latest(name); c != nil {
			w.life.waitOf[name] = c.ID
		}
	}
	return out
}

// backing are the back-offs that the end of a Pod cut short, unless somebody deleted it: then how its containers ended is shown. So does upstream.
func (w *worker) backing(in podplan.In) map[string]podstatus.Why {
	if podplan.Ending(in) == nil || in.Pod.DeletionTimestamp != nil {
		return nil
	}
	return w.life.told.backs
}

// say states the facts of a plan that the last plan did not have, and tells their events.
func (w *worker) say(in podplan.In, plan podplan.Plan) {
	said := map[string]bool{}
	for key := range w.life.said {
		if strings.HasPrefix(key, "wait ") {
			said[key] = true
		}
	}
	for _, f := range plan.Say {
		key := journal.Kind(f) + f.Line()
		if b, ok := f.(journal.BackingOff); ok {
			key += b.Until.String()
		}
		said[key] = true
		if w.life.said[key] {
			continue
		}
		w.put(f)
		if b, ok := f.(journal.BackingOff); ok && !w.toldAtStop(in, b.Container) {
			w.pool.d.Events.BackOff(in.Pod, b.Container, podplan.FullName(in.Pod))
		}
	}
	w.life.said = said
}

// toldAtStop tells whether the event of a container's back-off came when it was stopped.
func (w *worker) toldAtStop(in podplan.In, container string) bool {
	c := in.Seen.Latest(container)
	if c == nil || !w.life.ends.held[c.ID] {
		return false
	}
	delete(w.life.ends.held, c.ID)
	return true
}

// changes states what changed between two statuses.
func (w *worker) changes(old, s v1.PodStatus) {
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
			w.put(journal.ConditionChanged{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message})
		}
	}
}

// exits states which containers have ended since the status before.
func (w *worker) exits(in podplan.In) {
	known := map[string]bool{}
	for _, list := range [][]v1.ContainerStatus{in.Pod.Status.InitContainerStatuses, in.Pod.Status.ContainerStatuses, in.Pod.Status.EphemeralContainerStatuses} {
		for _, st := range list {
			for _, t := range []*v1.ContainerStateTerminated{st.State.Terminated, st.LastTerminationState.Terminated} {
				if t != nil {
					known[t.ContainerID] = true
				}
			}
		}
	}
	for _, c := range in.Seen.Containers {
		key := "wait exit " + c.ID
		if c.State != podplan.Exited || c.Sandbox == "" || w.life.said[key] {
			continue
		}
		w.life.said[key] = true
		if _, alive := known[w.pool.d.Node().Runtime+"://"+c.ID]; !alive {
			f := journal.ContainerExited{Container: c.Name, ID: c.ID, ExitCode: c.Exit.Code, Reason: c.Exit.Reason, Message: c.Exit.Message}
			if w.pool.d.Memory != nil {
				f.Memory = w.pool.d.Memory(in.Pod)
			}
			w.put(f)
		}
	}
}
