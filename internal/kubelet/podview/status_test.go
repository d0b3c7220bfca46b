package podview

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
)

// conditions are "TYPE=STATUS" words.
func conditions(words string) (out []v1.PodCondition) {
	for _, w := range strings.Fields(words) {
		kind, status, _ := strings.Cut(w, "=")
		out = append(out, v1.PodCondition{Type: v1.PodConditionType(kind), Status: v1.ConditionStatus(status)})
	}
	return out
}

// What a kubelet shows of a Pod while the API is behind: its own conditions, others' of the API,
// and
// the phase that the API has for good.
func TestOverlayOfAStatus(t *testing.T) {
	for _, c := range []struct {
		name     string
		own, api v1.PodStatus
		want     string // phase, reason, message, conditions
	}{
		{"running", v1.PodStatus{Phase: v1.PodRunning, Conditions: conditions("Ready=True DisruptionTarget=True " +
			"x/y=True")},
			v1.PodStatus{Phase: v1.PodPending, Reason: "R", Message: "m",
				Conditions: conditions("Ready=False DisruptionTarget=False x/y=False z/z=False")},
			"Running  [DisruptionTarget=False x/y=False z/z=False Ready=True]"},
		{"failed", v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "own",
			Conditions: conditions("DisruptionTarget=True")},
			v1.PodStatus{Phase: v1.PodRunning, Conditions: conditions("DisruptionTarget=False a/b=True")},
			"Failed Evicted own [a/b=True DisruptionTarget=True]"},
		{"succeeded", v1.PodStatus{Phase: v1.PodSucceeded, Conditions: conditions("DisruptionTarget=True")},
			v1.PodStatus{Phase: v1.PodRunning}, "Succeeded  [DisruptionTarget=True]"},
		{"failed there", v1.PodStatus{Phase: v1.PodRunning, Reason: "own", Message: "own"},
			v1.PodStatus{Phase: v1.PodFailed, Reason: "R", Message: "m"}, "Failed R m []"},
		{"succeeded there", v1.PodStatus{Phase: v1.PodFailed, Reason: "own"},
			v1.PodStatus{Phase: v1.PodSucceeded}, "Succeeded  []"},
		{"failed both", v1.PodStatus{Phase: v1.PodFailed, Reason: "own", Message: "own"},
			v1.PodStatus{Phase: v1.PodFailed, Reason: "R", Message: "m"}, "Failed own own []"},
	} {
		c.api.NominatedNodeName = "n"
		c.api.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "r"}}
		c.api.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "e"}
		c.own.NominatedNodeName = "old"
		view := View{status: &c.own}
		p := &v1.Pod{Status: c.api}
		got := view.Overlay(p)
		var list []string
		for _, x := range got.Status.Conditions {
			list = append(list, string(x.Type)+"="+string(x.Status))
		}
		text := strings.TrimRight(fmt.Sprint(got.Status.Phase, " ", strings.TrimSpace(got.Status.Reason+" "+
			got.Status.Message), " ", list), " ")
		if text != c.want {
			t.Errorf("%s: got %q, want %q", c.name, text, c.want)
		}
		s := got.Status
		if s.NominatedNodeName != "n" || len(s.ResourceClaimStatuses) != 1 || s.ExtendedResourceClaimStatus == nil {
			t.Errorf("%s: got nominated %q, claims %v and %v; want those of the API", c.name, s.NominatedNodeName,
				s.ResourceClaimStatuses, s.ExtendedResourceClaimStatus)
		}
		if c.own.NominatedNodeName != "old" || !reflect.DeepEqual(p.Status, c.api) {
			t.Errorf("%s: what was laid over another was changed", c.name)
		}
	}
	p := &v1.Pod{}
	if got := (View{}).Overlay(p); got != p {
		t.Errorf("got %p without a status, want the Pod itself, %p", got, p)
	}
	if got := (View{}).Status(); got != nil {
		t.Errorf("got status %v of a View without one, want nil", got)
	}
}

// A container that has ended is told of once, and not at all when the API has it from an earlier
// kubelet; one of no sandbox, which is only remembered, never.
func TestWhichExitsAreReported(t *testing.T) {
	exited := func(id string) podplan.Container {
		return podplan.Container{ID: id, Name: "c-" + id, Sandbox: "s", State: podplan.Exited,
			Exit: podplan.Exit{Code: 3, Reason: "Error", Message: "m"}}
	}
	state := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "fake://" + id}}
	}
	l := Look{Node: podstatus.Node{Runtime: "fake"}, In: podplan.In{Pod: &v1.Pod{Status: v1.PodStatus{
		InitContainerStatuses:      []v1.ContainerStatus{{State: state("init")}},
		ContainerStatuses:          []v1.ContainerStatus{{LastTerminationState: state("last")}, {State: state("app")}},
		EphemeralContainerStatuses: []v1.ContainerStatus{{State: state("debug")}},
	}}}}
	for _, id := range []string{"init", "last", "app", "debug", "new"} {
		l.In.Observed.Containers = append(l.In.Observed.Containers, exited(id))
	}
	running, remembered := exited("running"), exited("remembered")
	running.State, remembered.Sandbox = podplan.Running, ""
	l.In.Observed.Containers = append(l.In.Observed.Containers, running, remembered)
	view, facts := View{}.reportExits(l)
	want := []Fact{Journal{journal.ContainerExited{Container: "c-new", ID: "new", ExitCode: 3, Reason: "Error",
		Message: "m"}}}
	if !reflect.DeepEqual(facts, want) {
		t.Errorf("got %+v, want %+v", facts, want)
	}
	if got := slices.Sorted(maps.Keys(view.reported.exits)); !slices.Equal(got, []string{"app", "debug", "init", "last",
		"new"}) {
		t.Errorf("got told of %q, want all that have ended", got)
	}
	if _, again := view.reportExits(l); len(again) != 0 {
		t.Errorf("got %+v again, want nothing", again)
	}
}

// What changed between two statuses is the phase, with its reason, and each condition.
func TestWhatChangedOfAStatus(t *testing.T) {
	old := v1.PodStatus{Phase: v1.PodPending, Conditions: conditions("Ready=False Initialized=True")}
	s := v1.PodStatus{Phase: v1.PodRunning, Reason: "R", Message: "m",
		Conditions: conditions("Initialized=True Ready=True New=False")}
	s.Conditions[1].Reason, s.Conditions[1].Message = "A", "b"
	want := []Fact{Journal{journal.PhaseChanged{Phase: "Running", Reason: "R", Message: "m"}},
		Journal{journal.ConditionChanged{Type: "Ready", Status: "True", Reason: "A", Message: "b"}},
		Journal{journal.ConditionChanged{Type: "New", Status: "False"}}}
	if got := statusChanges(old, s); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := statusChanges(s, s); len(got) != 0 {
		t.Errorf("got %+v between equal statuses, want nothing", got)
	}
}

// What stopped containers are remembered by, from the plan that begins to the one that has ended.
func TestContainersThatAPlanStops(t *testing.T) {
	seen := podplan.Observed{Containers: []podplan.Container{{ID: "a", Name: "a", State: podplan.Running},
		{ID: "b", Name: "b", State: podplan.Exited}, {ID: "c", Name: "c", State: podplan.Running}}}
	kills := []podplan.Kill{{ID: "a", Name: "a", Restart: true}, {ID: "b", Name: "b", Restart: true},
		{ID: "c", Name: "c", BackOff: true}, {ID: "d", Name: "d"}}
	do := []podplan.Action{podplan.Stop{Kills: kills}}
	view, _ := Next(View{}, PlanStarted{Do: do, Observed: seen})
	if len(view.killed) != 1 || view.killed["a"].ran == nil || view.killed["a"].ran.Name != "a" {
		t.Errorf("got %+v of a plan that begins, want a as it ran", view.killed)
	}
	failed, facts := Next(view, PlanEnded{})
	if len(failed.killed) != 0 || len(facts) != 0 {
		t.Errorf("got %+v, %v of a plan that did nothing, want nothing", failed.killed, facts)
	}
	done, facts := Next(view, PlanEnded{Done: do})
	want := map[string]killed{"a": {stage: restarting}, "b": {stage: restarting}, "c": {stage: backOffReported}}
	if !reflect.DeepEqual(done.killed, want) || !reflect.DeepEqual(facts, []Fact{BackOff{"c"}}) ||
		done.lastContainerKilled {
		t.Errorf("got %+v, %+v, last %v; want %+v, a back-off of c, false", done.killed, facts,
			done.lastContainerKilled, want)
	}
	marked := done.MarkRestarting(seen)
	for i, want := range []bool{true, true, false} {
		if marked.Containers[i].Restarting != want || seen.Containers[i].Restarting {
			t.Errorf("%s: got marked %v (seen: %v), want %v (false)", marked.Containers[i].ID,
				marked.Containers[i].Restarting, seen.Containers[i].Restarting, want)
		}
	}
	removed, _ := Next(done, PlanEnded{Done: []podplan.Action{podplan.RemoveContainer{ID: "a"}}})
	if _, ok := removed.killed["a"]; ok || len(removed.killed) != 2 {
		t.Errorf("got %+v after a was removed, want the other two", removed.killed)
	}
	last, _ := Next(done, PlanEnded{Done: []podplan.Action{podplan.Stop{Kills: []podplan.Kill{{ID: "c"},
		{ID: "a", LastContainer: true}}}}})
	if !last.lastContainerKilled {
		t.Error("the Pod's last container was killed, and it is not known")
	}
	if none, _ := Next(last, PlanEnded{}); !none.lastContainerKilled {
		t.Error("forgotten with a plan that stops nothing, want it kept")
	}
	if other, _ := Next(last, PlanEnded{Done: do}); other.lastContainerKilled {
		t.Error("kept with a plan that stops others, want it forgotten")
	}
}
