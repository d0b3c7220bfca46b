package frameworkruntime

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

type intState struct{ n int }

func (n *intState) Clone() framework.StateData { return &intState{n.n} }

func TestCycleStateCloneIsIndependent(t *testing.T) {
	s := NewCycleState()
	s.Write("a", &intState{1})
	c := s.Clone()
	c.Write("b", &intState{2})
	v, err := c.Read("a")
	if err != nil {
		t.Fatal(err)
	}
	v.(*intState).n = 9
	if v, _ := s.Read("a"); v.(*intState).n != 1 {
		t.Errorf("the clone shares a note: got %v, want 1", v.(*intState).n)
	}
	if _, err := s.Read("b"); !errors.Is(err, framework.ErrNotFound) {
		t.Errorf("the original has the clone's note: %v", err)
	}
	s.Delete("a")
	if _, err := s.Read("a"); !errors.Is(err, framework.ErrNotFound) {
		t.Error("a dropped note is found")
	}
}

func TestParallelizerRunsEachPieceOnce(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 17, 1000, 4099} {
		done := make([]atomic.Int32, n)
		Parallelizer{Workers: 16}.ForEach(n, func(i int) { done[i].Add(1) })
		for i := range done {
			if got := done[i].Load(); got != 1 {
				t.Errorf("%d of %d was done %d times", i, n, got)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Parallelizer{Workers: 4}.Until(ctx, 1000, func(int) { t.Error("done after the end") }, "")
}

// row: SCH-10
func TestWaitingPods(t *testing.T) {
	p := &v1.Pod{}
	p.UID = "u"
	begin := func() (*WaitingPods, chan *framework.Status) {
		w := NewWaitingPods()
		w.Add(p, map[string]time.Duration{"a": time.Minute, "b": time.Hour})
		end := make(chan *framework.Status, 1)
		go func() { end <- w.Wait(context.Background(), p) }()
		return w, end
	}
	synctest.Test(t, func(t *testing.T) {
		w, end := begin()
		pod := w.Get("u")
		pod.Allow("a")
		synctest.Wait()
		if len(end) != 0 || len(pod.GetPendingPlugins()) != 1 {
			t.Errorf("one of two has allowed: got %d results and pending plugins %v, want the Pod to wait for one",
				len(end),
				pod.GetPendingPlugins())
		}
		pod.Allow("b")
		if s := <-end; !s.IsSuccess() {
			t.Errorf("allowed by all: %v", s)
		}
		synctest.Wait()
		if w.Get("u") != nil {
			t.Error("it still waits")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, end := begin()
		began := time.Now()
		s := <-end
		if want := "rejected due to timeout after waiting 1m0s at plugin a"; s.Code() != framework.Unschedulable ||
			s.Message() != want || s.Plugin() != "a" || time.Since(began) != time.Minute {
			t.Errorf("%v %q by %s after %s", s.Code(), s.Message(), s.Plugin(), time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w, end := begin()
		if pod := w.Get("u"); !pod.Reject("b", "no room for its group") {
			t.Error("a Pod that waits cannot be rejected")
		}
		if s := <-end; s.Code() != framework.Unschedulable || s.Plugin() != "b" ||
			s.Message() != "no room for its group" {
			t.Errorf("rejected: got %v %q by %s, want Unschedulable \"no room for its group\" by b", s.Code(),
				s.Message(),
				s.Plugin())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w, end := begin()
		pod := w.Get("u")
		if first, second := pod.Preempt("x", "for another"), pod.Reject("y", "too late"); !first || second {
			t.Errorf("the first decision counts: got %t, then %t, want true, false", first, second)
		}
		if s := <-end; s.IsRejected() || s.Plugin() != "x" {
			t.Errorf("preempted: %v by %s", s.Code(), s.Plugin())
		}
	})
}

func TestPreBindCanBeCutShortUntilItIsMarked(t *testing.T) {
	w := NewWaitingPods()
	ctx, cancel := context.WithCancelCause(t.Context())
	w.AddPodInPreBind("u", cancel)
	p := w.GetPodInPreBind("u")
	if got, want := []bool{p.CancelPod("preempted"), p.CancelPod("again"), p.MarkPrebound(), ctx.Err() == nil},
		[]bool{true, false, false, false}; !slices.Equal(got, want) {
		t.Errorf("a Pod in PreBind can be canceled once, and is then not prebound: got %v, want %v", got, want)
	}
	w.AddPodInPreBind("v", cancel)
	p = w.GetPodInPreBind("v")
	if marked, canceled := p.MarkPrebound(), p.CancelPod("too late"); !marked || canceled {
		t.Errorf("a marked Pod cannot be canceled: got marked %t, canceled %t, want true, false", marked, canceled)
	}
	w.RemovePodInPreBind("v")
	if w.GetPodInPreBind("v") != nil {
		t.Error("it is still there")
	}
}
