package scheduler

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// pluginMetrics counts which plugins took part in rulings: once for each attempt and point, however
// many nodes there are. The counters of a profile are looked up once.
type pluginMetrics struct {
	total       *counterVec
	batch       *counterVec
	cacheCounts schedule.CacheCounts
	evaluations map[*schedule.PluginSet]*profileEvaluations
}

type profileEvaluations struct{ preFilter, filter, preScore, score []pluginEvaluation }

type pluginEvaluation struct {
	plugin      string
	evaluations metrics.CounterMetric
}

func newPluginMetrics(r metrics.KubeRegistry) pluginMetrics {
	v := metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: "plugin_evaluation_total",
		Help: "Attempts to schedule Pods that a plugin took part in, at PreFilter, Filter, PreScore and " +
			"Score.",
		StabilityLevel: metrics.BETA},
		[]string{"plugin", "extension_point", "profile"})
	m := pluginMetrics{evaluations: map[*schedule.PluginSet]*profileEvaluations{},
		total: newCachedVec[metrics.CounterMetric](v, v.WithLabelValues)}
	m.batch = alphaCounter("batch_attempts_total",
		"Rulings by the use of verdicts kept from Pods of the same shape: hint_used, no_hint when the shape is new or "+
			"the Pod is nominated for a node, hint_not_used when they do not suffice.", "profile", "result")
	r.MustRegister(m.total, m.batch)
	return m
}

func (m pluginMetrics) evaluationsOf(j *schedule.PluginSet) *profileEvaluations {
	if s := m.evaluations[j]; s != nil {
		return s
	}
	s := &profileEvaluations{}
	plugin := func(plugin, point string) pluginEvaluation {
		return pluginEvaluation{plugin, m.total.WithLabelValues(plugin, point, j.Profile)}
	}
	for _, p := range j.PreFilter {
		s.preFilter = append(s.preFilter, plugin(p.Name(), "PreFilter"))
	}
	for _, p := range j.Filter {
		s.filter = append(s.filter, plugin(p.Name(), "Filter"))
	}
	for _, p := range j.PreScore {
		s.preScore = append(s.preScore, plugin(p.Name(), "PreScore"))
	}
	for _, p := range j.Score {
		s.score = append(s.score, plugin(p.Name(), "Score"))
	}
	m.evaluations[j] = s
	return s
}

// observe takes in a ruling; it is called by the scheduling goroutine alone. Plugins that skipped
// were not asked.
func (m pluginMetrics) observe(j *schedule.PluginSet, r *schedule.Result) {
	s := m.evaluationsOf(j)
	noFilter, noScore := r.State.GetSkipFilterPlugins(), r.State.GetSkipScorePlugins()
	inc := func(all []pluginEvaluation, skip sets.Set[string]) {
		for i := range all {
			if len(skip) == 0 || !skip.Has(all[i].plugin) {
				all[i].evaluations.Inc()
			}
		}
	}
	inc(s.preFilter, noFilter)
	if r.EvaluatedNodes == 0 {
		return
	}
	inc(s.filter, noFilter)
	if r.Scored() {
		inc(s.preScore, noScore)
		inc(s.score, noScore)
	}
}

// setCacheCounts counts how a ruling used the verdicts that are kept.
func (m *pluginMetrics) setCacheCounts(profile string, now schedule.CacheCounts) {
	was := m.cacheCounts
	if m.cacheCounts = now; now.Hits < was.Hits || now.Misses < was.Misses || now.Bypassed < was.Bypassed {
		was = schedule.CacheCounts{} // another memory, after a ruling that broke
	}
	result := "no_hint"
	switch {
	case now.Hits == was.Hits:
	case now.Bypassed > was.Bypassed:
		result = "hint_not_used"
	default:
		result = "hint_used"
	}
	m.batch.WithLabelValues(profile, result).Inc()
}
