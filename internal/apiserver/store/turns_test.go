package store

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Of a burst no watcher is told more than it has room for: those who were told run before more is handed out.
func TestBurstIsHandedOutInTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) { // no time passes but by waiting
		const watchers, room, events = 100, 10, 200 // ten is the room that the library's new watch caches give
		find := inTurns(storage.IndexerFuncs{"where": func(kruntime.Object) string { return "here" }})["where"]
		var in []chan int
		done := make(chan int)
		for range watchers {
			ch := make(chan int, room)
			in = append(in, ch)
			go func() {
				sum := 0
				for e := range ch {
					sum += e
				}
				done <- sum
			}()
		}
		for e := range events {
			if got := find(nil); got != "here" {
				t.Fatalf("found %q", got)
			}
			for n, ch := range in {
				select {
				case ch <- e:
				default:
					t.Fatalf("watcher %d has no room for event %d", n, e)
				}
			}
		}
		for _, ch := range in {
			close(ch)
		}
		for range watchers {
			if got := <-done; got != events*(events-1)/2 {
				t.Errorf("a watcher heard events of the sum %d", got)
			}
		}
	})
}

func TestNobodyToFind(t *testing.T) {
	if got := inTurns(nil); len(got) != 0 {
		t.Errorf("%d functions", len(got))
	}
}

// Only who hands out much at once steps back: writes that come one by one reach their watchers without a detour.
func TestBurst(t *testing.T) {
	var b burst
	now := time.Unix(1000, 0)
	backs := func(n int, apart time.Duration) (count int) {
		for range n {
			if now = now.Add(apart); b.look(now) {
				count++
			}
		}
		return count
	}
	if got := backs(100, lull); got != 0 {
		t.Errorf("stepped back %d times though the events came one by one", got)
	}
	if got := backs(5*turn, 10*time.Microsecond); got < 4 || got > 6 {
		t.Errorf("stepped back %d times in a burst of %d looks", got, 5*turn)
	}
	backs(turn, lull) // the burst is over
	if got := backs(turn-2, 10*time.Microsecond); got != 0 {
		t.Error("stepped back in a burst for which there is room")
	}
}
