package simulate

import (
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/source"
)

// timeFlags are the times that a person gives.
type timeFlags struct{ start, ready, stop, run timeFlag }

// timeFlag is a time of containers that a person gives: a duration, or a percentile of what was
// measured.
type timeFlag struct {
	text  string // empty: not given
	value time.Duration
}

// The percentiles that a timeFlag may be.
const (
	median     = "p50"
	percentile = "p99"
)

// String implements pflag.Value.
func (f *timeFlag) String() string { return f.text }

// Type implements pflag.Value.
func (*timeFlag) Type() string { return "duration|p50|p99" }

// Set implements pflag.Value.
func (f *timeFlag) Set(s string) error {
	if s != median && s != percentile {
		d, err := time.ParseDuration(s)
		if err != nil {
			return errors.New("must be a duration such as 20s, or p50 or p99")
		}
		if d < 0 {
			return errors.New("must not be negative")
		}
		f.value = d
	}
	f.text = s
	return nil
}

// of is a span with what was given in its place.
func (f *timeFlag) of(s behavior.Span) behavior.Span {
	switch f.text {
	case "":
		return s
	case median:
		return behavior.Fixed(s.P50)
	case percentile:
		return behavior.Fixed(s.P99)
	}
	return behavior.Fixed(f.value)
}

// given replaces the times that flags say.
func (s *simulation) given(t behavior.Times) behavior.Times {
	t.Start, t.Ready = s.times.start.of(t.Start), s.times.ready.of(t.Ready)
	t.Stop, t.Run = s.times.stop.of(t.Stop), s.times.run.of(t.Run)
	return t
}

// model is how containers behave: as flags say, as the file of --times does, as the journal tells,
// as statuses tell, as assumed.
func (s *simulation) model(copied source.Copied) (behavior.Model, error) {
	var pods []*corev1.Pod
	for _, o := range copied.Objects {
		if p, ok := o.(*corev1.Pod); ok {
			pods = append(pods, p)
		}
	}
	m := behavior.Model{Default: behavior.Assumed(), ByOwner: behavior.Learn(pods, behavior.Assumed())}
	m = m.Play(copied.Times)
	if s.scripts != "" {
		raw, err := os.ReadFile(s.scripts)
		if err != nil {
			return m, cli.UsageError(err)
		}
		scripts, err := behavior.ReadScripts(raw, s.Namespace)
		if err != nil {
			return m, cli.UsageError(fmt.Errorf("%s: %w", s.scripts, err))
		}
		m = m.Play(scripts)
	}
	m.Default = s.given(m.Default)
	for owner, t := range m.ByOwner {
		m.ByOwner[owner] = s.given(t)
	}
	return m, nil
}

// spreadSeeds is how many runs show a spread.
const spreadSeeds = 20

// leastSpread is the shortest that a forecast shows.
const leastSpread = 100 * time.Millisecond

// seedsFor is one run when all take about the same time.
func seedsFor(m behavior.Model) int {
	for _, t := range m.ByOwner {
		for _, x := range []behavior.Span{t.Start, t.Ready, t.Stop, t.Run} {
			if x.P99-x.P50 >= leastSpread {
				return spreadSeeds
			}
		}
	}
	return 1
}
