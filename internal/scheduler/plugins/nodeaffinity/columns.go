package nodeaffinity

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
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

// allTests is a term: every test must hold; one without tests holds nowhere.
type allTests []*columns.LabelTest

func (a allTests) match(row int32) bool {
	for _, t := range a {
		if !t.Valid(row) {
			return false
		}
	}
	return len(a) > 0
}

// operator is the label library's name of an operator; none for one that is not known.
func operator(o v1.NodeSelectorOperator) selection.Operator {
	switch o {
	case v1.NodeSelectorOpIn:
		return selection.In
	case v1.NodeSelectorOpNotIn:
		return selection.NotIn
	case v1.NodeSelectorOpExists:
		return selection.Exists
	case v1.NodeSelectorOpDoesNotExist:
		return selection.DoesNotExist
	case v1.NodeSelectorOpGt:
		return selection.GreaterThan
	case v1.NodeSelectorOpLt:
		return selection.LessThan
	}
	return ""
}

// compile makes tests of a term; false when it cannot be read.
func compile(term *v1.NodeSelectorTerm, t *columns.Table) (allTests, bool) {
	var out allTests
	for i := range term.MatchExpressions {
		e := &term.MatchExpressions[i]
		r, err := labels.NewRequirement(e.Key, operator(e.Operator), e.Values)
		if err != nil {
			return nil, false
		}
		out = append(out, t.Test(e.Key, func(value string, has bool) bool {
			if !has {
				return r.Matches(labels.Set{})
			}
			return r.Matches(labels.Set{e.Key: value})
		}))
	}
	return out, true
}

// Evaluator tests the value of each label once. What the library would call unreadable, and
// affinity added by the profile, is asked node by node.
func (pl *Plugin) Evaluator(p *v1.Pod, t *columns.Table) *columns.Evaluator {
	if pl.addedAffinity != nil || pl.addedPreferences != nil {
		return nil
	}
	var selector allTests
	for key, want := range p.Spec.NodeSelector {
		selector = append(selector, t.Test(key, func(value string, has bool) bool { return has && value == want }))
	}
	var required []allTests
	want := terms(p)
	if want != nil {
		for i := range want.NodeSelectorTerms {
			a, ok := compile(&want.NodeSelectorTerms[i], t)
			if !ok {
				return nil
			}
			required = append(required, a)
		}
	}
	score, ok := scores(p, t)
	if !ok {
		return nil
	}
	matches := func(row int32) bool {
		if len(selector) > 0 && !selector.match(row) {
			return false
		}
		return want == nil || slices.ContainsFunc(required, func(a allTests) bool { return a.match(row) })
	}
	return &columns.Evaluator{Score: score, Filter: func(rows []int32, no []*framework.Status) {
		for i, row := range rows {
			if no[i] == nil && !matches(row) {
				no[i] = pl.podStatus
			}
		}
	}}
}

func scores(p *v1.Pod, t *columns.Table) (func([]int32, []int64), bool) {
	type preference struct {
		allTests
		weight int64
	}
	var prefer []preference
	for _, one := range preferences(p) {
		if one.Weight == 0 || len(one.Preference.MatchExpressions) == 0 {
			continue
		}
		a, ok := compile(&one.Preference, t)
		if !ok {
			return nil, false
		}
		prefer = append(prefer, preference{a, int64(one.Weight)})
	}
	if len(prefer) == 0 {
		return nil, true
	}
	return func(rows []int32, raw []int64) {
		for i, row := range rows {
			for k := range prefer {
				if prefer[k].match(row) {
					raw[i] += prefer[k].weight
				}
			}
		}
	}, true
}
