package provisioner

import (
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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

// Users are told once each reason for which a claim waits: of an error at once, of missing room
// when the next look finds it still missing.
func TestAClaimSaysOnceWhyItWaits(t *testing.T) {
	var w pendingClaims
	at := time.Unix(1000, 0)
	full := func(free int) error { return fmt.Errorf("%w: %d bytes", errNoRoom, free) }
	broken := errors.New("the snapshot is not ready")
	for i, step := range []struct {
		after time.Duration
		err   error
		want  bool
	}{
		{0, full(7), false}, {time.Second, full(6), false}, {resyncPeriod, full(5), true},
		{2 * resyncPeriod, full(4), false}, {2 * resyncPeriod, broken, true}, {3 * resyncPeriod, broken, false},
		{4 * resyncPeriod, full(3), false}, {5 * resyncPeriod, full(3), true},
	} {
		if got := w.shouldReport("u", step.err, at.Add(step.after)); got != step.want {
			t.Errorf("step %d, %v: got %t, want %t", i, step.err, got, step.want)
		}
	}
	w.forget("u")
	if len(w.of) != 0 {
		t.Errorf("a claim that is forgotten is still there: got %v, want none", w.of)
	}
	if !w.shouldReport("u", broken, at) {
		t.Error("a claim that waits again says nothing")
	}
	for i := range 2 * mostWaits {
		w.shouldReport(types.UID(fmt.Sprint(i)), broken, at)
	}
	if len(w.of) > mostWaits {
		t.Errorf("%d claims are kept, want at most %d", len(w.of), mostWaits)
	}
}
