package provisioner

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A node takes claims of a class that allows it, by any of its terms.
func TestAClassAllowsNodes(t *testing.T) {
	term := func(key string, values ...string) v1.TopologySelectorTerm {
		return v1.TopologySelectorTerm{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
			{Key: key, Values: values}}}
	}
	both := term("d/node", "n1")
	both.MatchLabelExpressions = append(both.MatchLabelExpressions, term("zone", "z").MatchLabelExpressions...)
	for name, c := range map[string]struct {
		terms []v1.TopologySelectorTerm
		want  bool
	}{
		"no terms": {nil, true}, "this node": {[]v1.TopologySelectorTerm{term("d/node", "n1")}, true},
		"one of several":   {[]v1.TopologySelectorTerm{term("d/node", "n0", "n1")}, true},
		"by another term":  {[]v1.TopologySelectorTerm{term("d/node", "n2"), term("d/node", "n1")}, true},
		"another node":     {[]v1.TopologySelectorTerm{term("d/node", "n2")}, false},
		"another key":      {[]v1.TopologySelectorTerm{term("zone", "n1")}, false},
		"another key, too": {[]v1.TopologySelectorTerm{both}, false},
	} {
		if got := allowed(c.terms, here); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
