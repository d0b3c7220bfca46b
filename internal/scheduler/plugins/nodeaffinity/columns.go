package nodeaffinity

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var (
	_ schedule.ColumnPlugin  = (*Plugin)(nil)
	_ schedule.IgnoresPods   = (*Plugin)(nil)
	_ schedule.MaxNormalized = (*Plugin)(nil)
)

// IgnoresPods: the node itself decides.
func (*Plugin) IgnoresPods() {}

// AppendShape is selector and node affinity. Pods that name nodes by field are not shared: each
// names another.
func (*Plugin) AppendShape(to []byte, p *v1.Pod) ([]byte, bool) {
	to = append(snapshot.AppendLabels(to, p.Spec.NodeSelector), 0xff)
	if want := terms(p); want != nil {
		to = schedule.AppendInt(append(to, 1), int64(len(want.NodeSelectorTerms)))
		for i := range want.NodeSelectorTerms {
			if len(want.NodeSelectorTerms[i].MatchFields) > 0 {
				return to, false
			}
			to = appendTerm(to, &want.NodeSelectorTerms[i])
		}
	}
	for _, t := range preferences(p) {
		if len(t.Preference.MatchFields) > 0 {
			return to, false
		}
		to = appendTerm(schedule.AppendInt(append(to, 2), int64(t.Weight)), &t.Preference)
	}
	return to, true
}

func preferences(p *v1.Pod) []v1.PreferredSchedulingTerm {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func appendTerm(to []byte, t *v1.NodeSelectorTerm) []byte {
	to = schedule.AppendInt(to, int64(len(t.MatchExpressions)))
	for i := range t.MatchExpressions {
		r := &t.MatchExpressions[i]
		to = schedule.AppendString(to, r.Key)
		to = schedule.AppendString(to, string(r.Operator))
		to = schedule.AppendInt(to, int64(len(r.Values)))
		for _, v := range r.Values {
			to = schedule.AppendString(to, v)
		}
	}
	return to
}

// NormalizesReversed says that the largest sum is the best.
func (*Plugin) NormalizesReversed() (reverse bool) { return false }

// Evaluator is Filter and Score by columns; nil where a term reads a field, for nodes differ in
// name.
func (pl *Plugin) Evaluator(p *v1.Pod, t *columns.Table) *columns.Evaluator {
	var filterKeys, scoreKeys labelKeys
	for key := range p.Spec.NodeSelector {
		filterKeys.add(key)
	}
	filterKeys.addSelector(terms(p))
	scoreKeys.addPreferences(preferences(p))
	if pl.added != nil {
		filterKeys.addSelector(pl.added.RequiredDuringSchedulingIgnoredDuringExecution)
		scoreKeys.addPreferences(pl.added.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	own, err := preferredOf(p)
	if err != nil || filterKeys.fields || scoreKeys.fields {
		return nil
	}
	want := required{nodeaffinity.GetRequiredNodeAffinity(p)}
	filter := columns.ByLabels(t, filterKeys.keys, func(n *v1.Node) *framework.Status { return pl.filter(want, n) })
	score := columns.ByLabels(t, scoreKeys.keys, func(n *v1.Node) int64 { return pl.score(own, n) })
	return &columns.Evaluator{Filter: filter.Fill, Score: score.Fill}
}

// labelKeys are the label keys that terms read.
type labelKeys struct {
	keys   []string // each once
	fields bool     // a term reads a field of the node, too
}

func (k *labelKeys) add(key string) {
	if !slices.Contains(k.keys, key) {
		k.keys = append(k.keys, key)
	}
}

func (k *labelKeys) addTerm(t *v1.NodeSelectorTerm) {
	k.fields = k.fields || len(t.MatchFields) > 0
	for i := range t.MatchExpressions {
		k.add(t.MatchExpressions[i].Key)
	}
}

func (k *labelKeys) addSelector(s *v1.NodeSelector) {
	if s != nil {
		for i := range s.NodeSelectorTerms {
			k.addTerm(&s.NodeSelectorTerms[i])
		}
	}
}

func (k *labelKeys) addPreferences(all []v1.PreferredSchedulingTerm) {
	for i := range all {
		k.addTerm(&all[i].Preference)
	}
}
