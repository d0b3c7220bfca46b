package store

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// turn is how often in a burst a watch cache looks whom an event concerns before those who were told have their turn: once for an object that is
	// new, twice for one that has changed.
	turn = 4
	// lull ends a burst: in the meantime those who were told have run.
	lull = 500 * time.Microsecond
)

// inTurns wraps the functions by which a watch cache finds whom an event concerns, which it calls as it hands out each event: after every few of a
// burst the watchers run first. A new watch cache gives a watcher room for ten events, and each watcher needs the processor to make that room. Of a
// burst the cache would hand out more before they had it; it waits for them 50 ms of each second in all, then it cuts all of them off at once.
func inTurns(find storage.IndexerFuncs) storage.IndexerFuncs {
	out := storage.IndexerFuncs{}
	for name, f := range find {
		var b burst // of the one goroutine that hands out
		out[name] = func(o runtime.Object) string {
			if b.look(time.Now()) {
				stepBack()
				b.last = time.Now()
			}
			return f(o)
		}
	}
	return out
}

// burst counts looks that follow each other closely.
type burst struct {
	looks int
	last  time.Time
}

// look notes a look and says whether it is time to step back.
func (b *burst) look(now time.Time) bool {
	if now.Sub(b.last) >= lull {
		b.looks = 0
	}
	b.last = now
	if b.looks++; b.looks < turn {
		return false
	}
	b.looks = 0
	return true
}

// stepBack lets goroutines run that this one has woken: it goes to the end of its processor's queue. runtime.Gosched would put it into the queue that
// all processors share and look into before their own are empty, and there it would overtake them.
func stepBack() {
	back := make(chan struct{})
	go func() {
		close(back)    // the one that waits would be next
		go func() {}() // but what was woken last is
	}()
	<-back
}
