package scheduler

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// askedMeter counts which plugins took part in rulings: once for each attempt and point, however many nodes there are. The counters of a profile are looked up once.
type askedMeter struct {
	total *counters
	batch *counters
	known place.MemoryCounts
	of    map[*place.Judges]*askedSeats
}

type askedSeats struct{ preFilter, filter, preScore, score []askedSeat }

type askedSeat struct {
	plugin string
	times  metrics.CounterMetric
}

func newAskedMeter(r metrics.KubeRegistry) askedMeter {
	v := metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: "plugin_evaluation_total", Help: "Attempts to schedule Pods that a plugin took part in, at PreFilter, Filter, PreScore and Score.", StabilityLevel: metrics.BETA},
		[]string{"plugin", "extension_point", "profile"})
	m := askedMeter{of: map[*place.Judges]*askedSeats{}, total: newLabelled[metrics.CounterMetric](v, v.WithLabelValues)}
	m.batch = alphaCounter("batch_attempts_total", "Rulings by the use of verdicts kept from Pods of the same shape: hint_used, no_hint when the shape is new or the Pod is nominated for a node, hint_not_used when they do not suffice.", "profile", "result")
	r.MustRegister(m.total, m.batch)
	return m
}

func (m askedMeter) seats(j *place.Judges) *askedSeats {
	if s := m.of[j]; s != nil {
		return s
	}
	s := &askedSeats{}
	seat := func(plugin, point string) askedSeat {
		return askedSeat{plugin, m.total.WithLabelValues(plugin, point, j.Profile)}
	}
	for _, p := range j.PreFilter {
		s.preFilter = append(s.preFilter, seat(p.Name(), "PreFilter"))
	}
	for _, p := range j.Filter {
		s.filter = append(s.filter, seat(p.Name(), "Filter"))
	}
	for _, p := range j.PreScore {
		s.preScore = append(s.preScore, seat(p.Name(), "PreScore"))
	}
	for _, p := range j.Score {
		s.score = append(s.score, seat(p.Name(), "Score"))
	}
	m.of[j] = s
	return s
}

// count takes in a ruling; it is called by the scheduling goroutine alone. Plugins that skipped were not asked.
func (m askedMeter) count(j *place.Judges, r *place.Ruling) {
	s := m.seats(j)
	noFilter, noScore := r.State.GetSkipFilterPlugins(), r.State.GetSkipScorePlugins()
	inc := func(all []askedSeat, skip sets.Set[string]) {
		for i := range all {
			if len(skip) == 0 || !skip.Has(all[i].plugin) {
				all[i].times.Inc()
			}
		}
	}
	inc(s.preFilter, noFilter)
	if r.Visited == 0 {
		return
	}
	inc(s.filter, noFilter)
	if r.Scored() {
		inc(s.preScore, noScore)
		inc(s.score, noScore)
	}
}

// kept counts how a ruling used the verdicts that are kept.
func (m *askedMeter) kept(profile string, now place.MemoryCounts) {
	was := m.known
	if m.known = now; now.Known < was.Known || now.New < was.New || now.Plain < was.Plain {
		was = place.MemoryCounts{} // another memory, after a ruling that broke
	}
	result := "no_hint"
	switch {
	case now.Known == was.Known:
	case now.Plain > was.Plain:
		result = "hint_not_used"
	default:
		result = "hint_used"
	}
	m.batch.WithLabelValues(profile, result).Inc()
}
