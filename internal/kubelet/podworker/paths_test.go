package podworker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podexec"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// paced is a world whose actions take a random while, and that counts how many are under way for one Pod.
type paced struct {
	*world
	mu    sync.Mutex
	now   map[types.UID]int
	both  int
	begun map[types.UID][]Path
	rand  *rand.Rand
}

// pathOf tells which of the three ways an action is a step of.
func pathOf(a podplan.Action) Path {
	switch a.(type) {
	case podplan.Stop, podplan.StopSandbox:
		return Terminating
	case podplan.RemoveContainer, podplan.RemoveSandbox, podplan.Release:
		return Terminated
	}
	return Syncing
}

func (p *paced) Do(ctx context.Context, j podexec.Job, a podplan.Action) error {
	p.mu.Lock()
	p.now[j.Pod.UID]++
	if p.now[j.Pod.UID] > 1 {
		p.both++
	}
	p.begun[j.Pod.UID] = append(p.begun[j.Pod.UID], pathOf(a))
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
		return ctx.Err()
	}
	return p.world.Do(ctx, j, a)
}

// A thousand Pods are deleted at random moments of their lives: no worker does two things at once, none goes from one of the three ways back to an earlier one, and
// each is stopped once.
//
// row: PWK-06
// row: PWK-08
// row: PWK-09
// row: PWK-10
func TestAThousandRandomDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pool := begin(t, nil)
		hands := &paced{world: w, now: map[types.UID]int{}, begun: map[types.UID][]Path{}, rand: rand.New(rand.NewPCG(1, 2))}
		pool.d.Hands = hands
		for i := range 1000 {
			pod := aPod(fmt.Sprint(i), "")
			pod.Name = "p" + fmt.Sprint(i)
			pool.Tell(Wish{Pod: pod, Source: "api"})
			after := time.Duration(rand.New(rand.NewPCG(uint64(i), 3)).IntN(200)) * time.Millisecond
			time.AfterFunc(after, func() {
				pool.Tell(Wish{Pod: pod, Source: "api", Gone: true, End: &podplan.End{Cause: "deleted", Asked: time.Now(), Grace: time.Second}})
			})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if hands.both != 0 {
			t.Errorf("%d actions began while another of their Pod was under way", hands.both)
		}
		order := map[Path]int{Syncing: 0, Terminating: 1, Terminated: 2}
		for uid, paths := range hands.begun {
			for i := 1; i < len(paths); i++ {
				if order[paths[i]] < order[paths[i-1]] {
					t.Fatalf("Pod %s: %v", uid, paths)
				}
			}
			if pool.Known(uid) {
				t.Errorf("Pod %s is still there", uid)
			}
		}
		stops := map[string]int{}
		for _, act := range w.all() {
			if uid, rest, _ := strings.Cut(act, " "); strings.HasPrefix(rest, "stop c ") {
				stops[uid]++
			}
		}
		for uid, n := range stops {
			if n != 1 {
				t.Errorf("Pod %s was stopped %d times", uid, n)
			}
		}
		if len(stops) < 100 {
			t.Errorf("only %d Pods got as far as having to be stopped", len(stops))
		}
	})
}

// Whoever tells a worker something never waits for it, however busy it is; each Pod has its own mailbox, found by uid, and a full one holds the newest only.
//
// row: PWK-02
func TestMailboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pool := begin(t, map[string]time.Duration{"furnish": time.Hour})
		begun := time.Now()
		for i := range 1000 {
			pool.Tell(Wish{Pod: aPod("busy", fmt.Sprint(i)), Source: "api"})
			pool.Ring("busy")
		}
		other := aPod("other", "x")
		other.Name = "other"
		pool.Tell(Wish{Pod: other, Source: "api"})
		synctest.Wait()
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("telling took %s", waited)
		}
		if len(pool.workers) != 2 || cap(pool.workers["busy"].bell) != 1 {
			t.Errorf("%d workers, a bell for %d", len(pool.workers), cap(pool.workers["busy"].bell))
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		counts := map[string]int{}
		for _, a := range w.all() {
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

// refusing is a world where a container cannot be started the first two times.
type refusing struct {
	*world
	left  int
	times []time.Time
}

func (r *refusing) Do(ctx context.Context, j podexec.Job, a podplan.Action) error {
	if _, ok := a.(podplan.Start); ok {
		r.times = append(r.times, time.Now())
		if r.left--; r.left >= 0 {
			return errors.New("no")
		}
	}
	return r.world.Do(ctx, j, a)
}

// A Pod whose work is due is worked on then, though nobody rings: each round ends with the time of the next.
//
// row: PWK-04
// row: KSL-23
func TestDueWorkIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pool := begin(t, nil)
		hands := &refusing{world: w, left: 2}
		pool.d.Hands = hands
		pool.Tell(Wish{Pod: aPod("1", ""), Source: "api"})
		synctest.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(hands.times) != 3 {
			t.Errorf("tried %d times, want 3: two that fail and one that does not", len(hands.times))
		}
		for i := 1; i < len(hands.times); i++ {
			if gap := hands.times[i].Sub(hands.times[i-1]); gap < time.Second || gap > time.Minute {
				t.Errorf("%s between tries", gap)
			}
		}
	})
}
