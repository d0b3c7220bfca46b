package bind

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A preemptor waits until the scheduler itself has seen the last victim go: an informer's store,
// and the answer to the deletion, know it earlier.
//
// row: BND-12
func TestAPreemptorWaitsUntilItsVictimIsSeenLeaving(t *testing.T) {
	now := time.Unix(1000, 0)
	onNodes := map[types.UID]*v1.Pod{"low": {ObjectMeta: metav1.ObjectMeta{UID: "low"}}}
	standing := func(uid types.UID) *v1.Pod { return onNodes[uid] }
	var u pendingEvictions
	held := func(step string, want bool) {
		t.Helper()
		if got := u.isBlocked("high", standing); got != want {
			t.Errorf("%s: held %v, want %v", step, got, want)
		}
	}
	held("before", false)
	u.begin("high", now)
	held("others leave first", true)
	u.setLastVictim("high", "low")
	held("the last one is being asked", true)
	u.markAllDeleted("high", now)
	held("the last one was deleted, and still stands here", true)
	onNodes["low"] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "low", DeletionTimestamp: &metav1.Time{Time: now}}}
	held("it is seen leaving", false)
	delete(onNodes, "low")
	held("it is gone", false)
	if len(u.byPreemptor) != 0 {
		t.Errorf("%d preemptions remembered, want none", len(u.byPreemptor))
	}

	onNodes["low"] = &v1.Pod{}
	u.begin("high", now)
	u.setLastVictim("high", "low")
	u.markAllDeleted("high", now)
	u.begin("other", now.Add(maxForgotten+time.Second))
	held("its end was missed a minute ago", false)
}

// Only those whose wait may be over are looked at when a Pod goes: its last victim went or is seen
// leaving, or it was forgotten.
//
// row: BND-12
func TestPodDeletionConcernsItsPreemptor(t *testing.T) {
	now := time.Unix(1000, 0)
	onNodes := map[types.UID]*v1.Pod{"a": {}, "b": {},
		"c": {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}}}
	standing := func(uid types.UID) *v1.Pod { return onNodes[uid] }
	var u pendingEvictions
	for preemptor, victim := range map[types.UID]types.UID{"for-a": "a", "for-b": "b", "for-c": "c"} {
		u.begin(preemptor, now)
		u.setLastVictim(preemptor, victim)
	}
	u.begin("for-many", now)
	over := func(step string, gone types.UID, want ...types.UID) {
		t.Helper()
		got := u.preemptorsOf(gone, standing)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", step, got, want)
		}
	}
	over("another's", "x")
	delete(onNodes, "a")
	over("the last victim", "a", "for-a")
	u.markAllDeleted("for-c", now)
	over("one is asked and leaving", "x", "for-c")
	u.markAllDeleted("for-b", now)
	over("one is asked and still stands", "x", "for-c")
	if u.isBlocked("for-a", standing) {
		t.Error("a is gone, and is waited for")
	}
	if u.markAllDeleted("for-a", now); u.byPreemptor["for-a"] != nil {
		t.Error("a was gone before the answer came, and its preemption is remembered")
	}
	u.begin("late", now.Add(maxForgotten+time.Second))
	over("forgotten ones", "x", "for-b", "for-c")
	over("once", "x")
}
