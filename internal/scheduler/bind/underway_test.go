package bind

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A preemptor waits until the scheduler itself has seen the last victim go: an informer's store, and the answer to the deletion, know it earlier.
//
// row: BND-12
func TestAPreemptorWaitsUntilItsVictimIsSeenLeaving(t *testing.T) {
	now := time.Unix(1000, 0)
	world := map[types.UID]*v1.Pod{"low": {ObjectMeta: metav1.ObjectMeta{UID: "low"}}}
	standing := func(uid types.UID) *v1.Pod { return world[uid] }
	var u underWay
	held := func(step string, want bool) {
		t.Helper()
		if got := u.holds("high", standing); got != want {
			t.Errorf("%s: held %v, want %v", step, got, want)
		}
	}
	held("before", false)
	u.begin("high", now)
	held("others leave first", true)
	u.waitsFor("high", "low")
	held("the last one is being asked", true)
	u.asked("high", now)
	held("the last one was deleted, and still stands here", true)
	world["low"] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "low", DeletionTimestamp: &metav1.Time{Time: now}}}
	held("it is seen leaving", false)
	delete(world, "low")
	held("it is gone", false)
	if len(u.jobs) != 0 {
		t.Errorf("%d preemptions remembered, want none", len(u.jobs))
	}

	world["low"] = &v1.Pod{}
	u.begin("high", now)
	u.waitsFor("high", "low")
	u.asked("high", now)
	u.begin("other", now.Add(forgotten+time.Second))
	held("its end was missed a minute ago", false)
}
