package controllerruntime

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// plainDue is what a manualKeys must hold of delayed keys, found by looking at all of them.
type plainDue map[string]time.Time

func (p plainDue) earliest() (key string, at time.Time) {
	for name, t := range p {
		if key == "" || t.Before(at) || t.Equal(at) && name < key {
			key, at = name, t
		}
	}
	return key, at
}

// Keys come in the order of their times, of equal times by name, each once, at the earliest of its
// times, whatever was asked for in between.
//
// row: TOO-06
func TestManualKeysComeInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		now := time.Unix(1000, 0)
		keys := &manualKeys{now: func() time.Time { return now }, waiting: map[string]bool{}}
		keys.due = map[string]time.Time{}
		plain, ready := plainDue{}, []string(nil)
		release := func() {
			for first, at := plain.earliest(); first != "" && !at.After(now); first, at = plain.earliest() {
				delete(plain, first)
				if !slices.Contains(ready, first) {
					ready = append(ready, first)
				}
			}
		}
		for range 60 {
			switch key := fmt.Sprint("k", r.IntN(8)); r.IntN(3) {
			case 0:
				after := time.Duration(1+r.IntN(5)) * time.Second
				keys.AddAfter(key, after)
				if at, ok := plain[key]; !ok || now.Add(after).Before(at) {
					plain[key] = now.Add(after)
				}
			case 1:
				now = now.Add(time.Duration(r.IntN(3)) * time.Second)
			default:
				release()
				want := ""
				if len(ready) > 0 {
					want, ready = ready[0], ready[1:]
				}
				if got, none := keys.Get(); got != want || none != (want == "") {
					t.Fatalf("got key %q (none: %v), want %q", got, none, want)
				}
			}
			if _, at := plain.earliest(); len(ready) == 0 && !keys.wake().Equal(at) {
				t.Fatalf("got wake %s, want %s", keys.wake(), at)
			}
		}
	}
}

// BenchmarkManualKeys takes 100,000 keys while as many are due later.
func BenchmarkManualKeys(b *testing.B) {
	now := time.Unix(1000, 0)
	for b.Loop() {
		q := (&Queue{name: "bench", queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[string]())}).Manual(func() time.Time { return now })
		for i := range 100_000 {
			q.keys.Add(fmt.Sprint("now-", i))
			q.keys.AddAfter(fmt.Sprint("later-", i), time.Minute)
		}
		for _, none := q.keys.Get(); !none; _, none = q.keys.Get() {
		}
	}
}
