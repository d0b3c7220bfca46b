package queue_test

import (
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/prioritysort"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// A plugin that knows whom of those it keeps out an event may concern has the gates of these asked, and no others; of Pods that it does not keep out it is no matter.
//
// row: BND-12
func TestAGateIsAskedAboutWhomTheEventConcerns(t *testing.T) {
	shut, asked := true, 0
	q := queue.New(queue.Options{
		Less: prioritysort.New().Less, Log: logr.Discard(),
		Gate: func(*v1.Pod) *framework.Status {
			if asked++; shut {
				return framework.NewStatus(framework.UnschedulableAndUnresolvable, "wait").WithPlugin("keeper")
			}
			return nil
		},
		Hints: map[string][]queue.Hint{"s": {{Plugin: "keeper", Event: podGone, Whom: func(before, _ any) []types.UID {
			return []types.UID{types.UID("for-" + before.(*v1.Pod).Name), "unknown"}
		}}}},
	})
	for _, name := range []string{"for-a", "for-b"} {
		want(t, "kept out", says(q.Add(pod(name, 0), at(0))), name+" to gated (PodAdd by keeper)")
	}
	asked = 0
	want(t, "nobody's", says(q.Happened(queue.Event{ClusterEvent: podGone, Old: pod("x", 0)}, at(1))), "")
	if asked != 0 {
		t.Errorf("%d gates asked for a Pod that concerns nobody", asked)
	}
	want(t, "still shut", says(q.Happened(queue.Event{ClusterEvent: podGone, Old: pod("a", 0)}, at(2))), "")
	shut, asked = false, 0
	want(t, "open", says(q.Happened(queue.Event{ClusterEvent: podGone, Old: pod("b", 0)}, at(3))), "for-b to active (AssignedPodDelete)")
	if c := q.Count(); asked > 2 || c.Gated != 1 || c.Active != 1 {
		t.Errorf("%d gates asked, %+v; want those of one Pod, and the other kept out", asked, c)
	}
}
