package store

import (
	"runtime"
	"testing"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Of a burst no watcher is told more than it has room for: those who were told run before more is handed out.
func TestBurstIsHandedOutInTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const watchers, room, burst = 100, 10, 200 // ten is the room that the library's new watch caches give
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
	for e := range burst {
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
		if got := <-done; got != burst*(burst-1)/2 {
			t.Errorf("a watcher heard events of the sum %d", got)
		}
	}
}

func TestNobodyToFind(t *testing.T) {
	if got := inTurns(nil); len(got) != 0 {
		t.Errorf("%d functions", len(got))
	}
}
