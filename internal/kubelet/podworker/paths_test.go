package podworker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
)

// concurrencyChecker is a fixture whose actions take a random while, and that counts how many are
// under way for one Pod.
type concurrencyChecker struct {
	*testRuntime
	mu      sync.Mutex
	now     map[types.UID]int
	both    int
	started map[types.UID][]PodWorkerState
	stops   map[types.UID]int // that began, of containers
	rand    *rand.Rand
}

// stateOf returns the worker state that an action belongs to.
func stateOf(a podplan.Action) PodWorkerState {
	switch a.(type) {
	case podplan.Stop, podplan.StopSandbox:
		return TerminatingPod
	case podplan.RemoveContainer, podplan.RemoveSandbox, podplan.Release:
		return TerminatedPod
	}
	return SyncPod
}

func (p *concurrencyChecker) Do(ctx context.Context, j podactions.Job, a podplan.Action) error {
	p.mu.Lock()
	p.now[j.Pod.UID]++
	if p.now[j.Pod.UID] > 1 {
		p.both++
	}
	p.started[j.Pod.UID] = append(p.started[j.Pod.UID], stateOf(a))
	if _, ok := a.(podplan.Stop); ok {
		p.stops[j.Pod.UID]++
	}
	d := time.Duration(p.rand.IntN(50)) * time.Millisecond
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.now[j.Pod.UID]--
		p.mu.Unlock()
	}()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		time.Sleep(10 * time.Millisecond) // what is interrupted needs a while to end
		return ctx.Err()
	}
	return p.testRuntime.Do(ctx, j, a)
}

// A thousand Pods are deleted at random moments of their lives: no worker does two things at once,
// none goes from one of the three ways back to an earlier one, and each is stopped once.
//
// row: PWK-06
// row: PWK-08
// row: PWK-09
// row: PWK-10
// row: PWK-15
func TestAThousandRandomDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pool := begin(t, nil)
		actions := &concurrencyChecker{testRuntime: w, now: map[types.UID]int{},
			started: map[types.UID][]PodWorkerState{}, stops: map[types.UID]int{}, rand: rand.New(rand.NewPCG(1, 2))}
		pool.d.Actions = actions
		for i := range 1000 {
			pod := testPod(fmt.Sprint(i), "")
			pod.Name = "p" + fmt.Sprint(i)
			pool.UpdatePod(UpdatePodOptions{Pod: pod, Source: "api"})
			after := time.Duration(rand.New(rand.NewPCG(uint64(i), 3)).IntN(200)) * time.Millisecond
			time.AfterFunc(after, func() {
				pool.UpdatePod(UpdatePodOptions{Pod: pod, Source: "api", Gone: true,
					Termination: &podplan.Termination{Cause: "deleted", RequestedAt: time.Now(), Grace: time.Second}})
			})
			for range 5 { // the runtime speaks of the Pod while it is stopped
				after += 7 * time.Millisecond
				time.AfterFunc(after, func() { pool.Wake(pod.UID) })
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if actions.both != 0 {
			t.Errorf("%d actions began while another of their Pod was under way", actions.both)
		}
		order := map[PodWorkerState]int{SyncPod: 0, TerminatingPod: 1, TerminatedPod: 2}
		for uid, paths := range actions.started {
			for i := 1; i < len(paths); i++ {
				if order[paths[i]] < order[paths[i-1]] {
					t.Fatalf("Pod %s: %v", uid, paths)
				}
			}
			if pool.IsKnown(uid) {
				t.Errorf("Pod %s is still there", uid)
			}
		}
		for uid, n := range actions.stops {
			if n != 1 {
				t.Errorf("Pod %s was stopped %d times, want once", uid, n)
			}
		}
		if n := len(actions.stops); n < 100 {
			t.Errorf("only %d Pods got as far as having to be stopped, want 100", n)
		}
	})
}

// An update never blocks its sender, however busy it is; each Pod has its own
// mailbox, found by uid, and a full one holds the newest only.
//
// row: PWK-02
func TestUpdatesNeverBlockTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pool := begin(t, map[string]time.Duration{"furnish": time.Hour})
		startedAt := time.Now()
		for i := range 1000 {
			pool.UpdatePod(UpdatePodOptions{Pod: testPod("busy", fmt.Sprint(i)), Source: "api"})
			pool.Wake("busy")
		}
		other := testPod("other", "x")
		other.Name = "other"
		pool.UpdatePod(UpdatePodOptions{Pod: other, Source: "api"})
		synctest.Wait()
		if waited := time.Since(startedAt); waited != 0 {
			t.Errorf("telling took %s", waited)
		}
		if len(pool.workers) != 2 || cap(pool.workers["busy"].mailbox.Wakeups()) != 1 {
			t.Errorf("%d workers, a mailbox for %d", len(pool.workers), cap(pool.workers["busy"].mailbox.Wakeups()))
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		counts := map[string]int{}
		for _, a := range w.actionsSoFar() {
			uid, _, _ := strings.Cut(a, " ")
			counts[uid]++
		}
		if counts["busy"] != 3 || counts["other"] != 3 {
			t.Errorf("%v actions, want three each: furnish, create sandbox, start", counts)
		}
		v, _ := pool.View("busy")
		if v.Pod.Labels["rev"] != "999" {
			t.Errorf("revision %s is in force", v.Pod.Labels["rev"])
		}
	})
}

// failingActions is a fixture where a container cannot be started the first two times.
type failingActions struct {
	*testRuntime
	left  int
	times []time.Time
}

func (r *failingActions) Do(ctx context.Context, j podactions.Job, a podplan.Action) error {
	if _, ok := a.(podplan.Start); ok {
		r.times = append(r.times, time.Now())
		if r.left--; r.left >= 0 {
			return errors.New("no")
		}
	}
	return r.testRuntime.Do(ctx, j, a)
}

// A Pod whose work is due is worked on then, though nobody notifies it: each round ends with the
// time of the next, and the turn of every Pod, which comes later, puts nothing off.
//
// row: PWK-04
// row: KSL-23
func TestDueWorkIsDone(t *testing.T) {
	for _, turn := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w, pool := begin(t, nil)
			actions := &failingActions{testRuntime: w, left: 2}
			pool.d.Actions, pool.d.ResyncInterval = actions, turn
			pool.UpdatePod(UpdatePodOptions{Pod: testPod("1", ""), Source: "api"})
			synctest.Wait()
			time.Sleep(time.Hour)
			synctest.Wait()
			if len(actions.times) != 3 {
				t.Fatalf("tried %d times, want 3: two that fail and one that does not", len(actions.times))
			}
			for i, want := range []time.Duration{time.Second, 10 * time.Second} {
				if gap := actions.times[i+1].Sub(actions.times[i]); gap != want {
					t.Errorf("turns of %s: %s between tries %d and %d, want %s", turn, gap, i+1, i+2, want)
				}
			}
		})
	}
}

// A Pod that nobody notifies of anything is decided on again, each round after the one before, as
// long as it is there.
//
// row: PWK-04
func TestEachRoundIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := begin(t, nil)
		rounds := atomic.Int64{}
		pool.d.ResyncInterval = time.Minute
		pool.d.Node = func() podstatus.Node { rounds.Add(1); return podstatus.Node{} } // asked once a round
		pool.UpdatePod(UpdatePodOptions{Pod: testPod("1", ""), Source: "api"})
		time.Sleep(time.Second)
		synctest.Wait()
		for range 3 {
			before := rounds.Load()
			time.Sleep(59 * time.Second)
			synctest.Wait()
			time.Sleep(31 * time.Second) // a minute, and up to half of it more
			synctest.Wait()
			if rounds.Load() == before {
				t.Fatal("no round follows within a minute and a half")
			}
		}
		pool.UpdatePod(UpdatePodOptions{Pod: testPod("1", ""), Source: "api", Gone: true,
			Termination: &podplan.Termination{RequestedAt: time.Now()}})
		time.Sleep(time.Minute)
		synctest.Wait()
		before := rounds.Load()
		if time.Sleep(10 * time.Minute); rounds.Load() != before {
			t.Errorf("%d rounds of a Pod that is gone", rounds.Load()-before)
		}
	})
}
