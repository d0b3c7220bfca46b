package plugins_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/prioritysort"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/schedulinggates"
)

func withGates(names ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for _, n := range names {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: n})
		}
	}
}

// row: SCH-33
func TestAGatedPodStaysOutUntilItsLastGateGoes(t *testing.T) {
	pl := schedulinggates.New()
	for _, c := range []struct {
		name string
		p    *v1.Pod
		want string
	}{
		{"no gate", newPod("p"), ""},
		{"one", newPod("p", withGates("a")), "waiting for scheduling gates: [a]"},
		{"two", newPod("p", withGates("a", "b")), "waiting for scheduling gates: [a b]"},
	} {
		s := pl.PreEnqueue(context.Background(), c.p)
		if s.Message() != c.want || s.IsSuccess() != (c.want == "") {
			t.Errorf("%s: got %v, want %q", c.name, s, c.want)
		}
		if c.want != "" && s.Code() != framework.UnschedulableAndUnresolvable {
			t.Errorf("%s: got %s, want %s", c.name, s.Code(), framework.UnschedulableAndUnresolvable)
		}
	}
	events, err := pl.EventsToRegister(context.Background())
	if err != nil || len(events) != 1 || events[0].Event.Resource != framework.TargetPod ||
		events[0].Event.ActionType != framework.UpdatePodSchedulingGatesEliminated {
		t.Fatalf("got %v %v, want the Pod's last gate alone", events, err)
	}
	for _, c := range []struct {
		name  string
		after any
		want  framework.QueueingHint
	}{
		{"its last gate went", newPod("p"), framework.Queue},
		{"one is left", newPod("p", withGates("b")), framework.QueueSkip},
		{"another Pod's went", newPod("q"), framework.QueueSkip},
		{"something else", nil, framework.Queue},
	} {
		got, err := events[0].QueueingHintFn(logr.Discard(), newPod("p", withGates("a")), nil, c.after)
		if got != c.want || err != nil {
			t.Errorf("%s: got %v %v, want %v", c.name, got, err, c.want)
		}
	}
}

// queued is an entry of the queue.
type queued struct {
	framework.QueuedEntityInfo
	priority int32
	since    int64
}

func (q queued) GetPriority() int32      { return q.priority }
func (q queued) GetTimestamp() time.Time { return time.Unix(q.since, 0) }

// row: SCH-02
func TestPriorityThenArrival(t *testing.T) {
	less := prioritysort.New().Less
	for _, c := range []struct {
		name string
		a, b queued
		want bool
	}{
		{"higher and later", queued{priority: 2, since: 9}, queued{priority: 1, since: 1}, true},
		{"lower and earlier", queued{priority: 1, since: 1}, queued{priority: 2, since: 9}, false},
		{"equal and earlier", queued{priority: 1, since: 1}, queued{priority: 1, since: 2}, true},
		{"equal and later", queued{priority: 1, since: 2}, queued{priority: 1, since: 1}, false},
		{"the same", queued{priority: 1, since: 1}, queued{priority: 1, since: 1}, false},
	} {
		if got := less(c.a, c.b); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}
