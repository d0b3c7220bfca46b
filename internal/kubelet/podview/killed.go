package podview

import (
	"maps"
	"slices"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// killed is a container that a plan stops although its Pod goes on.
//
//	          PlanStarted               PlanEnded                 its record goes
//	running ─┬───────────▶ shown as it ran ─────────▶ restarting ────────────────▶ forgotten
//	         └─────────────────────────────────────▶ backOffReported ───────────▶ forgotten
//	                                                            the plan's back-off
type killed struct {
	stage killStage
	// as it ran, while the plan that stops it and starts it again is carried out; else nil
	ran *podplan.Container
}

// killStage is how a container that was stopped is shown.
type killStage int

const (
	notStopped killStage = iota
	restarting           // it starts again however it ended
	// it has to wait before it starts again, and the event of that came when it was stopped
	backOffReported
)

// PlanStarted is the step of a plan that begins to be carried out. Running containers that it stops
// to start them again are shown as they ran until it has ended: the API takes no container of a Pod
// with restartPolicy OnFailure back that it was shown to have ended with 0.
type PlanStarted struct {
	Do       []podplan.Action
	Observed podplan.Observed // on which it was decided
}

func (s PlanStarted) next(prev View) (View, []Fact) {
	out := prev
	for _, k := range kills(s.Do) {
		for _, c := range s.Observed.Containers {
			if k.Restart && c.ID == k.ID && c.State == podplan.Running {
				out.killed = with(out.killed, c.ID, killed{out.killed[c.ID].stage, &c})
			}
		}
	}
	return out, nil
}

// PlanEnded is the step of a plan that was carried out as far as it went.
type PlanEnded struct{ Done []podplan.Action }

func (s PlanEnded) next(prev View) (View, []Fact) {
	out := prev
	out.killed = map[string]killed{}
	for id, k := range prev.killed {
		if k.ran = nil; k.stage != notStopped {
			out.killed[id] = k
		}
	}
	var facts []Fact
	for _, a := range s.Done {
		switch a := a.(type) {
		case podplan.Stop:
			out.lastContainerKilled = slices.ContainsFunc(a.Kills, func(k podplan.Kill) bool { return k.LastContainer })
			for _, k := range a.Kills {
				switch {
				case k.Restart:
					out.killed[k.ID] = killed{stage: restarting}
				case k.BackOff:
					out.killed[k.ID] = killed{stage: backOffReported}
					facts = append(facts, BackOff{k.Name})
				}
			}
		case podplan.RemoveContainer:
			delete(out.killed, a.ID)
		}
	}
	return out, facts
}

func kills(actions []podplan.Action) (out []podplan.Kill) {
	for _, a := range actions {
		if stop, ok := a.(podplan.Stop); ok {
			out = append(out, stop.Kills...)
		}
	}
	return out
}

// MarkRestarting is what was seen, with those containers marked that start again however they
// ended.
func (v View) MarkRestarting(seen podplan.Observed) podplan.Observed {
	if len(v.killed) == 0 {
		return seen
	}
	seen.Containers = slices.Clone(seen.Containers)
	for i := range seen.Containers {
		seen.Containers[i].Restarting = v.killed[seen.Containers[i].ID].stage == restarting
	}
	return seen
}

// maskRestarting is what was seen, with containers that are being started again as they ran.
func (v View) maskRestarting(l Look) podplan.In {
	in := l.In
	in.Observed.Containers, in.Health = slices.Clone(in.Observed.Containers), maps.Clone(in.Health)
	for i, c := range in.Observed.Containers {
		ran := v.killed[c.ID].ran
		if ran == nil || c.State != podplan.Exited {
			continue
		}
		next := in.Observed.Latest(c.Name)
		if followed := next.ID != c.ID && next.State != podplan.Created && !l.RunningHooks[c.Name]; followed {
			continue
		}
		in.Observed.Containers[i] = *ran
		if in.Health == nil {
			in.Health = map[string]podplan.Health{}
		}
		in.Health[c.Name] = v.health[c.Name]
	}
	return in
}
