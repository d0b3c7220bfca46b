package scenario

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

func count(f *forecast.Forecast, is func(forecast.Pod) bool) int {
	n := 0
	for _, p := range f.Pods {
		if is(p) {
			n++
		}
	}
	return n
}

// A lost node is noticed when its grace period of 50 s is over; its Pods leave when they have
// tolerated that for 300 s, and come again on the node that is left.
func TestLostNode(t *testing.T) {
	in := input(append(nodes("4", "4"), deployment("web", 4, "500m"))...)
	f := simulate(t, in, func() Change { return &Lose{Nodes: []string{"n0"}} })
	came := count(f, func(p forecast.Pod) bool { return p.Created != nil && p.Node == "n1" && p.Ready != nil })
	left := count(f, func(p forecast.Pod) bool { return p.Cause == "taint" && p.Node == "n0" && p.Gone == nil })
	if !f.Outcome.Done || came == 0 || came != left {
		t.Errorf("outcome %+v: %d came, %d left, want as many", f.Outcome, came, left)
	}
	least, most := 340*time.Second, 380*time.Second
	for _, p := range f.Pods {
		if p.Leaves != nil && (*p.Leaves < least || *p.Leaves > most) {
			t.Errorf("%s leaves after %v, want %v to %v", p.Name, *p.Leaves, least, most)
		}
	}
}

// Scaling down deletes as many, scaling up makes as many; a deletion takes all.
func TestScaleAndDelete(t *testing.T) {
	web := Object{"Deployment", "default", "web"}
	in := input(append(nodes("4", "4"), deployment("web", 4, "500m"))...)
	gone := func(p forecast.Pod) bool { return p.Created == nil && p.Gone != nil && p.Cause == "replicaset" }
	f := simulate(t, in, func() Change { return &Scale{Object: web, Replicas: 1} })
	if n := count(f, gone); !f.Outcome.Done || n != 3 {
		t.Errorf("down: outcome %+v, %d gone, want 3", f.Outcome, n)
	}
	f = simulate(t, in, func() Change { return &Scale{Object: web, Replicas: 6} })
	came := func(p forecast.Pod) bool { return p.Created != nil && p.Ready != nil }
	if n := count(f, came); !f.Outcome.Done || n != 2 {
		t.Errorf("up: outcome %+v, %d came, want 2", f.Outcome, n)
	}
	f = simulate(t, in, func() Change { return &Delete{Object: web} })
	if n := count(f, func(p forecast.Pod) bool { return p.Gone != nil }); !f.Outcome.Done || n != 4 {
		t.Errorf("delete: outcome %+v, %d gone, want 4", f.Outcome, n)
	}
}

// A manifest makes what is not there, and rolls out what is there otherwise.
func TestApply(t *testing.T) {
	in := input(append(nodes("4", "4"), deployment("web", 2, "500m"))...)
	other := deployment("web", 2, "600m")
	f := simulate(t, in, func() Change {
		return &Apply{Objects: []runtime.Object{other, deployment("more", 1, "100m")}, Namespace: "default"}
	})
	came := count(f, func(p forecast.Pod) bool { return p.Created != nil && p.Ready != nil })
	if !f.Outcome.Done || came != 3 {
		t.Errorf("outcome %+v, %d came, want 3", f.Outcome, came)
	}
	bad := deployment("web", -2, "600m")
	if _, err := Simulate(t.Context(), in, func() Change { return &Apply{Objects: []runtime.Object{bad}} },
		nil); err == nil {
		t.Error("a negative number of replicas was taken")
	}
}
