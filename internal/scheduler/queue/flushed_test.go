package queue_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestWhoWasWokenByTimeIsKnown: an event that should have woken the Pod may be missing.
func TestWhoWasWokenByTimeIsKnown(t *testing.T) {
	q := newQueue()
	q.Add(pod("a", 0), t0)
	e := q.Pop(t0)
	if e.Flushed {
		t.Error("flushed at first")
	}
	q.Return(e, by("fit"), at(1))
	if moves := q.Flush(at(400)); len(moves) != 1 || !e.Flushed {
		t.Fatalf("after five minutes: %s, flushed %v", says(moves), e.Flushed)
	}
	if e = q.Pop(at(400)); !e.Flushed {
		t.Error("not known once it is tried")
	}
	q.Return(e, by("fit"), at(401))
	if q.Activate([]types.UID{"a"}, at(402)); e.Flushed {
		t.Error("somebody woke it")
	}
}
