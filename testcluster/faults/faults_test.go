package faults_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	schedules = flag.Int("schedules", 1, "how many random schedules are played")
	seed      = flag.Uint64("seed", 0,
		"of the first schedule; 0 takes one from the clock. The next schedules have the next seeds")
)

// perCluster is how many schedules one cluster runs. Few: client-go's watches back off up to a
// minute from an API server that dies often.
const perCluster = 3

// Whatever is killed at any time: one identity never runs twice, nothing starts after its
// stop was requested, acknowledged writes stay, no container restarts because of it, every Pod to
// end ends, and nothing is left of it.
//
// row: PWK-26
// row: KSL-08
// row: KSL-12
// row: KSL-24
// row: TRM-12
// row: OPS-17
func TestRandomFaults(t *testing.T) {
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano() % 1_000_000)
	}
	t.Logf("seeds %d to %d", first, first+uint64(*schedules)-1)
	for done := 0; done < *schedules && !t.Failed(); done += perCluster {
		from := first + uint64(done)
		// A subtest, so that its cluster ends before the next one starts: sixty at once would be
		// too slow.
		t.Run(fmt.Sprintf("from seed %d", from),
			func(t *testing.T) { playFrom(t, from, min(perCluster, *schedules-done)) })
	}
}

// playFrom plays n schedules in one cluster.
func playFrom(t *testing.T, from uint64, n int) {
	w := newFixture(t)
	for i := range n {
		s, startedAt := from+uint64(i), time.Now()
		if w.runSchedule(s, rand.New(rand.NewPCG(s, s))); t.Failed() {
			t.Fatalf("the schedule of seed %d failed: go test ./testcluster/faults -run TestRandomFaults -schedules "+
				"1 -seed %d\n%s\n%s", s, s, w.transcript(), w.c.Dump())
		}
		t.Logf("seed %d took %s", s, time.Since(startedAt).Round(time.Millisecond))
	}
	w.end()
}
