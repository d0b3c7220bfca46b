package scenario

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

// zonal is two zones of two nodes each: a Deployment that may run anywhere, and one that must run
// in zone z0.
func zonal() Input {
	pinned := deployment("pinned", 1, "100m")
	pinned.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "z0"}
	return input(append(nodes("4", "4", "4", "4"), deployment("web", 8, "500m"), pinned)...)
}

// simulateZonal simulates a change of the zonal cluster; unready are the Pods that are not ready at
// the end, and what the scheduler says of them.
func simulateZonal(t *testing.T, change func() Change) (f *forecast.Forecast, unready map[string]string) {
	t.Helper()
	unready = map[string]string{}
	f, err := Simulate(t.Context(), zonal(), change, func(ctx context.Context, r *Run) error {
		pods, err := r.Unready(ctx)
		for _, p := range pods {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled {
					unready[OwnerOf(&p)] = c.Message
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, unready
}

// comeToZ1 checks that each Pod of web that comes is ready on a node of zone z1, and that the one
// of zone z0 alone comes to no node and says why.
func comeToZ1(t *testing.T, f *forecast.Forecast, unready map[string]string) (came int) {
	t.Helper()
	for _, p := range f.Pods {
		switch {
		case p.Created == nil:
		case p.Owner == "deployment/pinned":
			if p.Node != "" || p.Ready != nil {
				t.Errorf("the Pod of zone z0: got %+v, want it on no node", p)
			}
		default:
			came++
			if p.Node != "n1" && p.Node != "n3" || p.Ready == nil || p.Replaces == "" {
				t.Errorf("comes: got %+v, want it ready on n1 or n3 in the place of another", p)
			}
		}
	}
	if len(unready) != 1 || !strings.Contains(unready["deployment/pinned"], "node affinity/selector") {
		t.Errorf("not ready: got %v, want the Pod of zone z0 alone, which no node matches", unready)
	}
	if f.Outcome.Done || !strings.Contains(f.Outcome.Why, "1 of ") {
		t.Errorf("got outcome %+v, want not done for 1 Pod", f.Outcome)
	}
	return came
}

// A drain of a zone takes every node of it, by name, the next one when the one before is empty; no
// Pod goes to a node of the zone that is still to be drained.
//
// row: TOO-06
func TestDrainOfAZone(t *testing.T) {
	drain := &Drain{Zone: "z0"}
	f, unready := simulateZonal(t, func() Change { return drain })
	if got := f.Target; !slices.Equal(got, []string{"zone/z0"}) || !slices.Equal(drain.Nodes, []string{"n0", "n2"}) {
		t.Errorf("got target %v and nodes %v, want zone/z0 and n0, n2", got, drain.Nodes)
	}
	var emptied, begun time.Duration = 0, -1
	left := map[string]int{}
	for _, p := range f.Pods {
		if p.Created != nil {
			continue
		}
		left[p.Node]++
		if p.Cause != "evicted" || p.Leaves == nil || p.Gone == nil {
			t.Errorf("leaves: got %+v, want evicted and gone", p)
			continue
		}
		if p.Node == "n0" {
			emptied = max(emptied, *p.Gone)
		} else if begun < 0 || *p.Leaves < begun {
			begun = *p.Leaves
		}
	}
	if len(left) != 2 || left["n0"] == 0 || left["n2"] == 0 {
		t.Errorf("Pods left by node: got %v, want some of n0 and of n2, and of no other", left)
	}
	if begun < emptied {
		t.Errorf("evictions on n2 begin at %v, want them not before n0 is empty at %v", begun, emptied)
	}
	if came := comeToZ1(t, f, unready); came != left["n0"]+left["n2"]-1 {
		t.Errorf("got %d Pods of web that came, want %d", came, left["n0"]+left["n2"]-1)
	}
}

// A loss of a zone takes every node of it: as it is wholly silent and another zone is not, its
// nodes are tainted one after the other at the usual rate, ten seconds apart.
//
// row: TOO-06
func TestLossOfAZone(t *testing.T) {
	lose := &Lose{Zone: "z0"}
	f, unready := simulateZonal(t, func() Change { return lose })
	if !slices.Equal(f.Target, []string{"zone/z0"}) || !slices.Equal(lose.Nodes, []string{"n0", "n2"}) {
		t.Errorf("got target %v and nodes %v, want zone/z0 and n0, n2", f.Target, lose.Nodes)
	}
	left, at := map[string]int{}, map[string]time.Duration{}
	for _, p := range f.Pods {
		if p.Created != nil {
			continue
		}
		left[p.Node]++
		if p.Cause != "taint" || p.Leaves == nil || p.Gone != nil {
			t.Errorf("leaves: got %+v, want asked to leave by the taint, and not gone", p)
			continue
		}
		at[p.Node] = *p.Leaves
	}
	if len(left) != 2 || left["n0"] == 0 || left["n2"] == 0 {
		t.Errorf("Pods left by node: got %v, want some of n0 and of n2, and of no other", left)
	}
	apart := at["n2"] - at["n0"]
	if least := min(at["n0"], at["n2"]); least < 340*time.Second || least > 380*time.Second ||
		max(apart, -apart) != 10*time.Second {
		t.Errorf("Pods leave at %v, want 340 s to 380 s, and 10 s apart", at)
	}
	if came := comeToZ1(t, f, unready); came != left["n0"]+left["n2"]-1 {
		t.Errorf("got %d Pods of web that came, want %d", came, left["n0"]+left["n2"]-1)
	}
}

// A budget holds up a drain of a zone as it does one of a node: on each node of it.
func TestBudgetHoldsDrainOfAZoneUp(t *testing.T) {
	all := append(nodes("4", "4", "4"), deployment("web", 6, "500m"), budget("web", 5))
	for _, o := range all {
		if d, ok := o.(*appsv1.Deployment); ok { // two Pods on each node
			d.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1,
				TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: selector("web")}}
		}
	}
	f := simulate(t, input(all...), func() Change { return &Drain{Zone: "z0"} })
	held := map[string]bool{}
	for _, b := range f.Blocked {
		if b.Until == nil || *b.Until <= b.From || (*b.Until-b.From)%evictRetry != 0 {
			t.Errorf("got %+v, want it let go some times 5 s later", b)
		}
		for _, p := range f.Pods {
			if p.Key() == b.Pod {
				held[p.Node] = true
			}
		}
	}
	if !f.Outcome.Done || !held["n0"] || !held["n2"] {
		t.Errorf("got outcome %+v and Pods held up on %v, want done, and on n0 and n2", f.Outcome, held)
	}
}
