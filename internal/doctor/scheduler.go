package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// slowAttemptThreshold is the 99th percentile of attempts from which scheduling counts as slow.
const slowAttemptThreshold = 200 * time.Millisecond

// staleAfter is how long a scheduler may get no update of Pods or nodes while Pods are pending.
// Healthy nodes cause none; their leases are not watched.
const staleAfter = 5 * time.Minute

// Scheduler is what a scheduler's metrics say.
type Scheduler struct {
	Address        string
	Err            error
	P99            time.Duration // of an attempt, from its start to the end of binding
	Attempts       uint64
	Pending        map[string]int64     // Pods by queue: active, backoff, unschedulable, gated
	Percent        map[string]int64     // percentageOfNodesToScore by profile; 0 is the adaptive sample
	MetricsUpdated map[string]time.Time // when the informer last got an update of nodes and of Pods
}

// scheduling reports how long attempts take, and if they are slow the usual causes, most frequent
// first.
func scheduling(f Facts) []Finding {
	s := f.Scheduler
	if s == nil {
		return nil
	}
	at := s.Address
	switch {
	case s.Err != nil:
		return []Finding{{About: at, Level: Note, Text: "the scheduler's metrics cannot be read: " + s.Err.Error(),
			Fix: "see that it runs, and that the user of the kubeconfig may get /metrics"}}
	case s.Attempts == 0:
		return []Finding{{About: at, Text: "no Pod has been scheduled yet"}}
	case s.P99 <= slowAttemptThreshold:
		return []Finding{{About: at, Text: fmt.Sprintf("of %d attempts 99 %% took at most %s", s.Attempts,
			s.P99.Round(time.Millisecond))}}
	}
	return []Finding{
		{About: at, Level: Warning, Text: fmt.Sprintf("slow: the 99th percentile of %d attempts is %s, more than %s",
			s.Attempts, s.P99.Round(time.Millisecond), slowAttemptThreshold),
			Fix: "look at the next three lines, in their order"},
		s.queueDepth(), s.sampled(), s.metricsCurrent(f.Now),
	}
}

func (s *Scheduler) queueDepth() Finding {
	var parts []string
	for _, q := range []string{"active", "backoff", "unschedulable", "gated"} {
		parts = append(parts, fmt.Sprintf("%d %s", s.Pending[q], q))
	}
	f := Finding{About: s.Address, Level: Note, Text: "queue depth: " + strings.Join(parts, ", ")}
	switch {
	case s.Pending["active"] > 0:
		f.Fix = "Pods come faster than they are bound: wait until the active ones are through, or slow down who " +
			"creates them"
	case s.Pending["unschedulable"]+s.Pending["backoff"] > 0:
		f.Fix = "Pods that fit nowhere are tried again and again: kubectl get events --field-selector " +
			"reason=FailedScheduling, then make room or delete them"
	}
	return f
}

func (s *Scheduler) sampled() Finding {
	var parts []string
	all := false
	for _, profile := range slices.Sorted(maps.Keys(s.Percent)) {
		n := s.Percent[profile]
		all = all || n >= 100
		text := fmt.Sprintf("%s %d", profile, n)
		if n == 0 {
			text = profile + " 0 (the adaptive sample)"
		}
		parts = append(parts, text)
	}
	f := Finding{About: s.Address, Level: Note, Text: "percentageOfNodesToScore: " + strings.Join(parts, ", ")}
	if len(parts) == 0 {
		f.Text += "not told"
	}
	if all {
		f.Fix = "every node is scored: a lower percentageOfNodesToScore, or 0, looks at fewer nodes and may miss a " +
			"better one"
	}
	return f
}

func (s *Scheduler) metricsCurrent(now time.Time) Finding {
	var parts []string
	f := Finding{About: s.Address, Level: Note}
	for _, what := range slices.Sorted(maps.Keys(s.MetricsUpdated)) {
		age := now.Sub(s.MetricsUpdated[what]).Round(time.Second)
		parts = append(parts, fmt.Sprintf("%s %s ago", what, age))
		if age > staleAfter {
			f.Level, f.Fix = Warning,
				"the scheduler may be deciding about a cluster of the past: see its log for a watch that fails, and "+
					"the API server's load"
		}
	}
	f.Text = "informer cache: last told of " + strings.Join(parts, ", ")
	if len(parts) == 0 {
		f.Text = "informer cache: nothing told"
	}
	return f
}
