package podview

import (
	"maps"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/reason"
)

// failures are the last two failures of one container's start.
type failures struct {
	count            int
	latest, previous *reason.Refusal
}

// next counts a failed try, unless it is the one that was counted last.
func (f failures) next(try podplan.Try) failures {
	if f.count == try.Count {
		return f
	}
	if try.Count < f.count {
		f.latest = nil
	}
	return failures{count: try.Count, latest: try.Refusal, previous: f.latest}
}

// shown is what the status says: how the last try ended; of an image that cannot be pulled how the
// try before ended, so that reason and message stand until the next one, as upstream's do.
func (f failures) shown(try podplan.Try) podstatus.WaitingReason {
	refusal := try.Refusal
	if f.previous != nil && isPullFailure(f.latest.Code) && isPullFailure(f.previous.Code) {
		refusal = f.previous
	}
	return podstatus.WaitingReason{Reason: string(refusal.Code), Message: refusal.Detail}
}

func isPullFailure(c reason.Code) bool {
	return c == reason.ErrImagePull || c == reason.ImagePullBackOff
}

// explainWaiting says why containers that do not run do not: a failed try, or a back-off of the
// plan. While one is being started again its old reason stays.
func (v View) explainWaiting(s Decided) View {
	in, why := s.In, map[string]podstatus.WaitingReason{}
	for _, a := range s.Plan.Do {
		if start, ok := a.(podplan.Start); ok {
			if old, had := v.waiting[start.Name]; had {
				why[start.Name] = old.WaitingReason
			}
		}
	}
	failed := map[string]failures{}
	for name, try := range in.Tries {
		if !podplan.IsContainerTry(name) {
			continue
		}
		failed[name] = v.failures[name].next(try)
		why[name] = failed[name].shown(try)
	}
	backOffs := map[string]podstatus.WaitingReason{}
	for _, f := range s.Plan.Facts {
		if b, ok := f.(journal.BackingOff); ok {
			backOffs[b.Container] = podstatus.WaitingReason{Reason: b.What, Message: b.Message}
			if !exitShownFirst(in, b) {
				why[b.Container] = backOffs[b.Container]
			}
		}
	}
	v.failures = failed
	if podplan.EffectiveTermination(in) == nil {
		v.backOffs = backOffs
	}
	v.waiting = map[string]waiting{}
	for name, w := range why {
		of := waiting{WaitingReason: w}
		if c := in.Observed.Latest(name); c != nil {
			of.containerID = c.ID
		}
		v.waiting[name] = of
	}
	return v
}

// exitShownFirst tells whether a container's end is to be shown before its back-off is.
func exitShownFirst(in podplan.In, b journal.BackingOff) bool {
	c := in.Observed.Latest(b.Container)
	return c != nil && in.Now.Before(podplan.BackOffShown(in.Observed, c, b.Until))
}

func (v View) waitingReasons() map[string]podstatus.WaitingReason {
	out := make(map[string]podstatus.WaitingReason, len(v.waiting))
	for name, w := range v.waiting {
		out[name] = w.WaitingReason
	}
	return out
}

// interruptedBackOffs are the back-offs that the end of a Pod cut short, unless somebody deleted
// it: then how its containers ended is shown. So does upstream.
func (v View) interruptedBackOffs(in podplan.In) map[string]podstatus.WaitingReason {
	if podplan.EffectiveTermination(in) == nil || in.Pod.DeletionTimestamp != nil {
		return nil
	}
	return v.backOffs
}

// backOffReport is the last event of a back-off, and what was true of the Pod then.
type backOffReport struct {
	at     time.Time
	until  time.Time
	states map[string]podplan.State // of all containers that were started, by ID
	health map[string]podplan.Health
}

// repeatedAfter is how often the event of a back-off may be repeated: upstream's kubelet looks at
// the runtime once a second.
const repeatedAfter = time.Second

// newReport is what is to be remembered of an event that is told now.
func newReport(in podplan.In, until time.Time) backOffReport {
	t := backOffReport{at: in.Now, until: until, states: map[string]podplan.State{}, health: in.Health}
	for _, c := range in.Observed.Containers {
		if c.State != podplan.Created {
			t.states[c.ID] = c.State
		}
	}
	return t
}

// outdated tells whether the event is to be told again: each time a container of the Pod starts or
// ends, or becomes ready or stops being it, while the back-off goes on. So does upstream, which
// tells it with each sync of the Pod.
func (t backOffReport) outdated(now backOffReport) bool {
	if now.at.Sub(t.at) < repeatedAfter {
		return false
	}
	for id, state := range now.states {
		if was, known := t.states[id]; !known || was != state {
			return true
		}
	}
	return !maps.Equal(t.health, now.health)
}

// reportPlan tells the facts of a plan that the plan before did not have, and the events of its
// back-offs.
func (v View) reportPlan(s Decided) (View, []Fact) {
	var facts []Fact
	byText, backs := map[string]bool{}, map[string]backOffReport{}
	for _, f := range s.Plan.Facts {
		key := journal.Kind(f) + f.Line()
		b, backsOff := f.(journal.BackingOff)
		if backsOff {
			key += b.Until.String()
		}
		byText[key] = true
		if !v.reported.plan[key] {
			facts = append(facts, Journal{f})
		}
		if !backsOff {
			continue
		}
		now, last := newReport(s.In, b.Until), v.reported.backs[b.Container]
		if backs[b.Container] = last; last.until.Equal(b.Until) && !last.outdated(now) {
			continue
		}
		backs[b.Container] = now
		if c := s.In.Observed.Latest(b.Container); c != nil && v.killed[c.ID].stage == backOffReported {
			v.killed = without(v.killed, c.ID) // the event came when it was stopped
			continue
		}
		facts = append(facts, BackOff{b.Container})
	}
	v.reported.plan, v.reported.backs = byText, backs
	return v, facts
}
