package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// A new Pod is in the queue without any wait: its notice takes the time of the work alone.
//
// row: API-18
func TestANewPodIsTakenUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, nil, aNode("n1", "4"))
		time.Sleep(time.Second) // until the caches are in sync
		synctest.Wait()
		for i := range 3 {
			name := fmt.Sprint("web-", i)
			c.create(aPod(name, "1"))
			synctest.Wait() // no time passes
			facts := c.notes.factsOf(name)
			if !slices.ContainsFunc(facts, func(f journal.Fact) bool { _, ok := f.(journal.Queued); return ok }) {
				t.Errorf("%s, when all that was under way has been done: got %v, want it in the queue", name, facts)
			}
		}
		time.Sleep(time.Second) // what is late comes to its end in the bubble
	})
}
