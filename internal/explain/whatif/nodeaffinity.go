package whatif

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// loosenAffinity edits the expressions of a required term that exclude the node, as little as
// possible. Each term is an alternative.
func loosenAffinity(st searchState, r journal.NodeRefusal) []change {
	n := st.snapshot.Node(r.Node)
	if n == nil {
		return nil
	}
	var out []change
	for i, t := range RequiredTerms(st.pod) {
		term := v1.NodeSelectorTerm{}
		var says []string
		cost := 1.1
		try := func(e v1.NodeSelectorRequirement, value string, has bool, to *[]v1.NodeSelectorRequirement) {
			keep, say := loosenExpression(e, value, has)
			// matchFields allow only one value
			if to == &term.MatchFields && e.Operator == v1.NodeSelectorOpIn && say != "" {
				keep.Values, say = []string{value},
					fmt.Sprintf("name %s instead of %s", value, strings.Join(e.Values, ", "))
			}
			if say != "" {
				says = append(says, say)
				cost += 0.2 + boundShift(e, keep)
			}
			if keep != nil {
				*to = append(*to, *keep)
			}
		}
		for _, e := range t.MatchExpressions {
			v, has := n.Node().Labels[e.Key]
			try(e, v, has, &term.MatchExpressions)
		}
		for _, e := range t.MatchFields { // metadata.name: the only supported field
			try(e, r.Node, true, &term.MatchFields)
		}
		// nothing to change, or an empty term, which matches no node
		if len(says) == 0 || len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			continue
		}
		out = append(out, change{kind: "affinity", description: "in the required node affinity, " + strings.Join(says,
			" and "), cost: cost, pod: func(p *v1.Pod) {
			RequiredTerms(p)[i] = *term.DeepCopy()
		}})
	}
	return out
}

// refusalsNotNamed returns the refusals of nodes that the Pod's required node affinity does not
// name, if it names no existing one: PreFilter then excludes them.
func refusalsNotNamed(in In) []journal.NodeRefusal {
	var names []string
	for _, t := range RequiredTerms(in.Pod) {
		for _, e := range t.MatchFields {
			for _, v := range e.Values {
				if in.Snapshot.Node(v) == nil {
					v += ", which does not exist"
				}
				names = append(names, v)
			}
		}
	}
	var out []journal.NodeRefusal
	for _, n := range in.Snapshot.All() {
		if len(out) == maxTargetNodes || len(names) == 0 {
			break
		}
		out = append(out, journal.NodeRefusal{Node: n.Node().Name, Plugin: "NodeAffinity",
			Messages: []string{"node(s) didn't match Pod's node affinity/selector"},
			Detail:   "the required node affinity names node " + strings.Join(names, "; node ")})
	}
	return out
}

// loosenExpression returns the expression changed so that it holds for value, or for a missing
// label; nil if it must be removed. It also returns a description, empty if the expression held
// before.
func loosenExpression(e v1.NodeSelectorRequirement, value string, has bool) (*v1.NodeSelectorRequirement, string) {
	keep := e.DeepCopy()
	bound := func(step int64) (*v1.NodeSelectorRequirement, string) {
		v, err := strconv.ParseInt(value, 10, 64)
		if !has || err != nil || len(e.Values) != 1 {
			return nil, "drop " + expression(e)
		}
		was, err := strconv.ParseInt(e.Values[0], 10, 64)
		if err == nil && (step < 0 && v > was || step > 0 && v < was) {
			return keep, ""
		}
		keep.Values = []string{strconv.FormatInt(v+step, 10)}
		return keep, fmt.Sprintf("make %s %s", expression(e), expression(*keep))
	}
	switch e.Operator {
	case v1.NodeSelectorOpIn:
		if has && slices.Contains(e.Values, value) {
			return keep, ""
		}
		if !has {
			return nil, "drop " + expression(e)
		}
		keep.Values = append(keep.Values, value)
		return keep, fmt.Sprintf("accept %s=%s too", e.Key, value)
	case v1.NodeSelectorOpNotIn:
		if !has || !slices.Contains(e.Values, value) {
			return keep, ""
		}
		say := fmt.Sprintf("no longer rule out %s=%s", e.Key, value)
		if keep.Values = slices.DeleteFunc(keep.Values, func(v string) bool { return v == value }); len(
			keep.Values) == 0 {
			keep = nil
		}
		return keep, say
	case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
		if has == (e.Operator == v1.NodeSelectorOpExists) {
			return keep, ""
		}
		return nil, "drop " + expression(e)
	case v1.NodeSelectorOpGt:
		return bound(-1)
	case v1.NodeSelectorOpLt:
		return bound(1)
	}
	return keep, ""
}

// boundShift returns how far a bound was moved, relative to its value, at most 0.5; removing an
// expression costs more.
func boundShift(was v1.NodeSelectorRequirement, is *v1.NodeSelectorRequirement) float64 {
	if is == nil {
		return 0.6
	}
	if was.Operator != v1.NodeSelectorOpGt && was.Operator != v1.NodeSelectorOpLt {
		return 0
	}
	a, err := strconv.ParseFloat(was.Values[0], 64)
	b, bad := strconv.ParseFloat(is.Values[0], 64)
	if err != nil || bad != nil {
		return 0.5
	}
	d := math.Abs(a - b)
	return 0.5 * d / (d + math.Abs(a) + 1)
}

func expression(e v1.NodeSelectorRequirement) string {
	switch e.Operator {
	case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
		return e.Key + " " + string(e.Operator)
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		return fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ", "))
	}
	return fmt.Sprintf("%s %s (%s)", e.Key, e.Operator, strings.Join(e.Values, ", "))
}
