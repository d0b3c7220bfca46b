package metrics

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// Plugins counts which plugins took part in scheduling cycles: once for each cycle and extension
// point, however many nodes there are. Only the scheduling goroutine may call it.
type Plugins struct {
	total       *counterVec
	batch       *counterVec
	cacheCounts schedule.CacheCounts
	evaluations map[*schedule.PluginSet]*profileEvaluations // looked up once
}

type profileEvaluations struct{ preFilter, filter, preScore, score []pluginEvaluation }

type pluginEvaluation struct {
	plugin      string
	evaluations metrics.CounterMetric
}

func newPlugins(r metrics.KubeRegistry) *Plugins {
	m := &Plugins{evaluations: map[*schedule.PluginSet]*profileEvaluations{},
		total: counter("plugin_evaluation_total",
			"Attempts to schedule Pods that a plugin took part in, at PreFilter, Filter, PreScore and Score.",
			metrics.BETA, "plugin", "extension_point", "profile")}
	m.batch = counter("batch_attempts_total",
		"Rulings by the use of verdicts kept from Pods of the same shape: hint_used, no_hint when the shape is new "+
			"or the Pod is nominated for a node, hint_not_used when they do not suffice.",
		metrics.ALPHA, "profile", "result")
	r.MustRegister(m.total, m.batch)
	return m
}

// Init looks up the counters of a set of plugins, so that they are served as 0 from the start.
func (m *Plugins) Init(j *schedule.PluginSet) { m.evaluationsOf(j) }

func (m *Plugins) evaluationsOf(j *schedule.PluginSet) *profileEvaluations {
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

// Observe counts a result of scheduling with a set of plugins. Plugins that PreFilter or PreScore
// skipped took no part.
func (m *Plugins) Observe(j *schedule.PluginSet, r *schedule.Result) {
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

// SetCacheCounts counts whether the last cycle of a profile used cached results. now are the counts
// of the equivalence cache after it.
func (m *Plugins) SetCacheCounts(profile string, now schedule.CacheCounts) {
	was := m.cacheCounts
	if m.cacheCounts = now; now.Hits < was.Hits || now.Misses < was.Misses || now.Bypassed < was.Bypassed {
		was = schedule.CacheCounts{} // another cache, after a cycle that broke
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
