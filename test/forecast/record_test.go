package forecast_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gantry-project/gantry/hack/bench/result"
)

// comparison counts what was compared.
type comparison struct {
	run      result.Run     // when and where it began
	compared map[string]int // by verb, and those with claims
	open     int            // scenarios that are not determined
	equal    int            // scenarios that were compared and came as foretold
	other    int            // those that came otherwise
	times    times
}

func (c *comparison) all() int { return c.equal + c.other }

// enough tells whether n scenarios were compared, of every kind some.
func (c *comparison) enough(n int) bool {
	return c.all() >= n && c.compared["lose"] > 0 && c.compared["claims"] > 0
}

// record writes the counts to the file that FORECAST_RECORD names.
func (c *comparison) record(t *testing.T) {
	t.Helper()
	file := os.Getenv("FORECAST_RECORD")
	if file == "" {
		return
	}
	r := c.run
	r.Command = fmt.Sprintf("FORECAST_SCENARIOS=%d go test ./test/forecast -run TestForecastsComeTrue", c.all())
	count := func(name, unit string, n float64) {
		r.Figures = append(r.Figures, result.Figure{Name: name, Unit: unit, Value: &n})
	}
	count("scenarios/compared", "scenarios", float64(c.all()))
	for _, kind := range []string{"apply", "drain", "lose", "rollout", "scale", "claims"} {
		count("scenarios/compared/"+kind, "scenarios", float64(c.compared[kind]))
	}
	count("scenarios/left to chance", "scenarios", float64(c.open))
	count("scenarios/as foretold", "%", 100*float64(c.equal)/float64(c.all()))
	timed := c.times.within + len(c.times.outside)
	count("times/compared", "scenarios", float64(timed))
	count("times/within the spread", "%", 100*float64(c.times.within)/float64(timed))
	r.Figures = append(r.Figures, result.Durations("times/off the spread", c.times.off),
		result.Durations("times/lost to other work", c.times.lost))
	if err := r.Write(file); err != nil {
		t.Error(err)
	}
}

// off is how far a time is from a spread; 0: it is within.
func (s *spread) off(took time.Duration) time.Duration {
	return max(0, s.Fastest-took, took-s.P99)
}
