package probeplan

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gantry-project/gantry/internal/journal"
)

// Measured is what was seen of one container.
type Measured struct {
	Container string        `json:"container"`
	Answers   uint64        `json:"answers,omitempty"` // answers to probes; 0: none was measured
	P95       time.Duration `json:"p95Nanoseconds,omitempty"`
	P99       time.Duration `json:"p99Nanoseconds,omitempty"`
	Starts    int           `json:"starts,omitempty"` // starts after which the Pod became ready
	Start     time.Duration `json:"startNanoseconds,omitempty"`
}

// Lines says what was seen.
func (m Measured) Lines() []string {
	var out []string
	if m.Answers > 0 {
		out = append(out, fmt.Sprintf("measured: %d answers of container %s to probes, P95 at most %s, P99 at most %s",
			m.Answers, m.Container, m.P95, m.P99))
	}
	if m.Starts > 0 {
		out = append(
			out,
			fmt.Sprintf("measured: the slowest of %d starts of container %s took %s until the Pod was ready",
				m.Starts, m.Container, seconds(m.Start)),
		)
	}
	return out
}

// ReadAnswers reads how long a container took to answer probes out of its kubelet's
// /metrics/probes. A percentile is the end of the histogram's bucket in which it lies, so it is
// never too short; one beyond the last bucket is that bucket's end.
func (m *Measured) ReadAnswers(pod, namespace string, text io.Reader) error {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return fmt.Errorf("metrics of probes: %w", err)
	}
	below := map[float64]uint64{}
	for _, one := range all["prober_probe_duration_seconds"].GetMetric() {
		if !labelled(one, map[string]string{"pod": pod, "namespace": namespace, "container": m.Container}) {
			continue
		}
		m.Answers += one.GetHistogram().GetSampleCount()
		for _, b := range one.GetHistogram().GetBucket() {
			below[b.GetUpperBound()] += b.GetCumulativeCount()
		}
	}
	m.P95, m.P99 = percentile(below, m.Answers, 0.95), percentile(below, m.Answers, 0.99)
	return nil
}

func labelled(m *dto.Metric, want map[string]string) bool {
	n := 0
	for _, l := range m.GetLabel() {
		if v, ok := want[l.GetName()]; ok && v == l.GetValue() {
			n++
		}
	}
	return n == len(want)
}

// percentile is the end of the first bucket that holds a share of all.
func percentile(below map[float64]uint64, all uint64, share float64) time.Duration {
	if all == 0 {
		return 0
	}
	var ends []float64
	for end := range below {
		if !math.IsInf(end, 1) {
			ends = append(ends, end)
		}
	}
	slices.Sort(ends)
	last := 0.0
	for _, end := range ends {
		if last = end; float64(below[end]) >= share*float64(all) {
			break
		}
	}
	return time.Duration(last * float64(time.Second))
}

// ReadStarts finds in a Pod's journal the slowest start of the container: from its start until the
// Pod was ready. A start that never became ready does not count.
func (m *Measured) ReadStarts(entries []journal.Entry) {
	var started time.Time
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case journal.ContainerStarted:
			if f.Container == m.Container {
				started = e.At
			}
		case journal.ContainerExited:
			if f.Container == m.Container {
				started = time.Time{}
			}
		case journal.ConditionChanged:
			if f.Type == "Ready" && f.Status == "True" && !started.IsZero() {
				m.Starts++
				m.Start = max(m.Start, e.At.Sub(started))
				started = time.Time{}
			}
		}
	}
}

// ReadWindow reads a sensitivity: a name, or two times such as 30s..90s.
func ReadWindow(text string) (Window, error) {
	for _, s := range Sensitivities {
		if s.Name == text {
			return s.Window, nil
		}
	}
	first, last, ok := strings.Cut(text, "..")
	low, err := time.ParseDuration(first)
	high, worse := time.ParseDuration(last)
	if !ok || err != nil || worse != nil {
		return Window{}, fmt.Errorf(
			"%q: must be high (15s..45s), medium (30s..90s), low (90s..5m) or two times with .. "+
				"between: 30s..90s",
			text,
		)
	}
	return Window{low, high}, nil
}
