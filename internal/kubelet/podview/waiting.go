package podview

import (
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

// reportPlan tells the facts of a plan that the plan before did not have, and the events of its
// back-offs.
func (v View) reportPlan(s Decided) (View, []Fact) {
	var facts []Fact
	byText := map[string]bool{}
	for _, f := range s.Plan.Facts {
		key := journal.Kind(f) + f.Line()
		b, backsOff := f.(journal.BackingOff)
		if backsOff {
			key += b.Until.String()
		}
		byText[key] = true
		if v.reported.plan[key] {
			continue
		}
		facts = append(facts, Journal{f})
		if !backsOff {
			continue
		}
		if c := s.In.Observed.Latest(b.Container); c != nil && v.killed[c.ID].stage == backOffReported {
			v.killed = without(v.killed, c.ID) // the event stood for one back-off only
			continue
		}
		facts = append(facts, BackOff{b.Container})
	}
	v.reported.plan = byText
	return v, facts
}
