package queue_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestFlushUnschedulableIsTheWakeReason: an event that should have woken the Pod may be missing.
func TestFlushUnschedulableIsTheWakeReason(t *testing.T) {
	q := newQueue()
	q.Add(pod("a", 0), t0)
	e := q.Pop(t0)
	if e.FlushedFromUnschedulable {
		t.Error("flushed at first")
	}
	q.AddUnschedulableIfNotPresent(e, refusedBy("fit"), at(1))
	if moves := q.Flush(at(400)); len(moves) != 1 || !e.FlushedFromUnschedulable {
		t.Fatalf("after five minutes: %s, flushed %v", moveTexts(moves), e.FlushedFromUnschedulable)
	}
	if e = q.Pop(at(400)); !e.FlushedFromUnschedulable {
		t.Error("not known once it is tried")
	}
	q.AddUnschedulableIfNotPresent(e, refusedBy("fit"), at(401))
	if q.Activate([]types.UID{"a"}, at(402)); e.FlushedFromUnschedulable {
		t.Error("somebody woke it")
	}
}
