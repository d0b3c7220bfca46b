package autoscalers

import (
	"reflect"
	"testing"
	"time"
)

// Gantry decides every step of the recorded series as upstream's controller did: the scale, the
// status with its conditions and metrics, and the events.
func TestDecisionsAreUpstreams(t *testing.T) {
	all, err := Load("testdata/series.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for i := range all {
		s := &all[i]
		for n, got := range s.Decide(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) {
			steps++
			if want := s.Steps[n].Want; !reflect.DeepEqual(got, want) {
				t.Errorf("series %d, step %d:\n got %+v\nwant %+v", s.Seed, n, got, want)
				break // what follows has another history
			}
		}
	}
	if len(all) < 500 {
		t.Errorf("got %d recorded series of %d steps, want at least 500", len(all), steps)
	}
}
