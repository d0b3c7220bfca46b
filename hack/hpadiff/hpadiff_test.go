package hpadiff

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/gantry-project/gantry/test/replay/autoscalers"
)

var (
	count  = flag.Int("series", 300, "series to compare")
	first  = flag.Uint64("first", 1, "seed of the first; 0: any")
	record = flag.String("record", "", "write the series with upstream's decisions into this file")
)

const steps = 6 // upstream's recorder lets 25 events of an object through at once

// Both controllers decide the same in every step of every series.
func TestDecisionsAreTheSame(t *testing.T) {
	seed := *first
	if seed == 0 {
		seed = rand.Uint64N(1 << 40)
	}
	var all []autoscalers.Series
	decisions := 0
	for i := range *count {
		s := autoscalers.Random(seed+uint64(i), steps)
		start := upstream(t, &s)
		all = append(all, s)
		for n, got := range s.Decide(start) {
			decisions++
			if want := s.Steps[n].Want; !reflect.DeepEqual(got, want) {
				t.Errorf("series %d, step %d:\n got %+v\nwant %+v", s.Seed, n, got, want)
				break // what follows has another history
			}
		}
	}
	fmt.Printf("%d series from seed %d, %d decisions compared\n", len(all), seed, decisions)
	if *record != "" {
		if err := autoscalers.Save(*record, all); err != nil {
			t.Fatal(err)
		}
	}
}
