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

// A plugin that knows whom of those it keeps out an event may concern has the gates of these asked,
// and no others; of Pods that it does not keep out it is no matter.
//
// row: BND-12
func TestPreEnqueueRunsForConcernedPodsOnly(t *testing.T) {
	shut, asked := true, 0
	q := queue.New(queue.Options{
		Less: prioritysort.New().Less, Log: logr.Discard(),
		PreEnqueue: func(*v1.Pod) *framework.Status {
			if asked++; shut {
				return framework.NewStatus(framework.UnschedulableAndUnresolvable, "wait").WithPlugin("keeper")
			}
			return nil
		},
		QueueingHints: map[string][]queue.QueueingHint{
			"s": {{Plugin: "keeper", Event: podGone, ConcernedPods: func(before, _ any) []types.UID {
				return []types.UID{types.UID("for-" + before.(*v1.Pod).Name), "unknown"}
			}}}},
	})
	for _, name := range []string{"for-a", "for-b"} {
		expect(t, "kept out", moveTexts(q.Add(pod(name, 0), at(0))), name+" to gated (PodAdd by keeper)")
	}
	asked = 0
	expect(t, "nobody's",
		moveTexts(q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone, Old: pod("x", 0)}, at(1))), "")
	if asked != 0 {
		t.Errorf("%d gates asked for a Pod that concerns nobody, want 0", asked)
	}
	expect(t, "still shut",
		moveTexts(q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone, Old: pod("a", 0)}, at(2))), "")
	shut, asked = false, 0
	expect(t, "open", moveTexts(q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone, Old: pod("b", 0)},
		at(3))), "for-b to active (AssignedPodDelete)")
	if c := q.StageCounts(); asked > 2 || c.Gated != 1 || c.Active != 1 {
		t.Errorf("%d gates asked, %+v; want those of one Pod, and the other kept out", asked, c)
	}
}
