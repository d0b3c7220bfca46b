package doctor

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// ReadScheduler parses a scheduler's /metrics. Only Gantry's has the percentage of nodes and the
// age of its cache.
func ReadScheduler(address string, text io.Reader) *Scheduler {
	s := &Scheduler{Address: address, Pending: map[string]int64{}, Percent: map[string]int64{},
		MetricsUpdated: map[string]time.Time{}}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(text)
	if err != nil {
		s.Err = fmt.Errorf("its metrics: %w", err)
		return s
	}
	each := func(name, label string, take func(value string, v float64)) {
		for _, m := range all[name].GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == label {
					take(l.GetValue(), m.GetGauge().GetValue())
				}
			}
		}
	}
	each("scheduler_pending_pods", "queue", func(queue string, v float64) { s.Pending[queue] = int64(v) })
	each("gantry_scheduler_percentage_of_nodes_to_score",
		"profile", func(profile string, v float64) { s.Percent[profile] = int64(v) })
	each("gantry_scheduler_informer_last_event_timestamp_seconds", "resource", func(resource string, v float64) {
		s.MetricsUpdated[resource] = time.UnixMilli(int64(v * 1000))
	})
	s.P99, s.Attempts = quantile(0.99, all["scheduler_scheduling_attempt_duration_seconds"])
	return s
}

// quantile returns the upper bound of the histogram's bucket with quantile q over all labels, and
// the number of observations.
func quantile(q float64, f *dto.MetricFamily) (time.Duration, uint64) {
	total, below := uint64(0), map[float64]uint64{}
	for _, m := range f.GetMetric() {
		total += m.GetHistogram().GetSampleCount()
		for _, b := range m.GetHistogram().GetBucket() {
			below[b.GetUpperBound()] += b.GetCumulativeCount()
		}
	}
	type bucket struct {
		to float64
		n  uint64
	}
	var buckets []bucket
	for to, n := range below {
		if !math.IsInf(to, 1) {
			buckets = append(buckets, bucket{to, n})
		}
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.to, b.to) })
	for _, b := range buckets {
		if float64(b.n) >= q*float64(total) {
			return time.Duration(b.to * float64(time.Second)), total
		}
	}
	if len(buckets) == 0 {
		return 0, total
	}
	return time.Duration(2 * buckets[len(buckets)-1].to * float64(time.Second)), total // above the highest bound
}
