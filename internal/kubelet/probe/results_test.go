package probe_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

// What a row of answers adds up to, and which of them are facts.
//
// row: PRB-13
func TestResults(t *testing.T) {
	spec := probe.Spec{Period: 10 * time.Second, SuccessThreshold: 1, FailureThreshold: 2}
	key := probe.Key{UID: "u", Container: "c", Kind: probe.Readiness}
	ok := probe.Answer{Outcome: probe.Outcome{Result: probe.Success, Output: "fine"}}
	fails := func(text string) probe.Answer {
		return probe.Answer{Outcome: probe.Outcome{Result: probe.Failure, Output: text}}
	}
	late := ok
	late.Late = 6 * time.Second
	r := probe.NewResults(probe.Readiness)
	for i, c := range []struct {
		answer  probe.Answer
		health  probe.Health
		changed bool
		fact    string // message of the fact; - for none
	}{
		{ok, probe.Healthy, true, ""},
		{ok, probe.Healthy, false, "-"},
		{late, probe.Healthy, false, ""},
		{late, probe.Healthy, false, "-"}, // reported once
		{fails("no"), probe.Healthy, false, "no"},
		{fails("no"), probe.Unhealthy, true, "no"},
		{fails("no"), probe.Unhealthy, false, "-"},
		{fails("no more"), probe.Unhealthy, false, "no more"},
		{probe.Answer{Outcome: probe.Outcome{Err: errors.New("busy")}}, probe.Unhealthy, false, "busy"},
		{probe.Answer{Outcome: probe.Outcome{Err: errors.New("busy")}}, probe.Unhealthy, false, "-"},
		{ok, probe.Healthy, true, ""},
	} {
		next, changed, fact := r.Add(key, c.answer, spec)
		message := "-"
		if fact != nil {
			message = fact.Message
		}
		if next.Health != c.health || changed != c.changed || message != c.fact {
			t.Errorf("answer %d: got health %d, changed %t, fact %q; want %d, %t, %q", i, next.Health, changed, message,
				c.health, c.changed, c.fact)
		}
		r = next
	}
}

// row: PRB-14, PRB-19
func TestResultsThatEndAContainerOrItsStartup(t *testing.T) {
	for _, c := range []struct {
		kind   probe.Kind
		health probe.Health
		want   bool
	}{
		{probe.Startup, probe.Healthy, true}, {probe.Startup, probe.Unhealthy, true},
		{probe.Startup, probe.Pending, false}, {probe.Liveness, probe.Unhealthy, true},
		{probe.Liveness, probe.Healthy, false}, {probe.Readiness, probe.Unhealthy, false},
		{probe.Readiness, probe.Healthy, false},
	} {
		if got := (probe.Results{Health: c.health}).Decided(c.kind); got != c.want {
			t.Errorf("%s with health %d: got %t, want %t", c.kind, c.health, got, c.want)
		}
	}
}

// Of a row of successes that has to be longer the first is recorded, and the one that suffices.
func TestTheFirstOfARowOfSuccessesIsRecorded(t *testing.T) {
	spec := probe.Spec{Period: time.Second, SuccessThreshold: 3, FailureThreshold: 3}
	key := probe.Key{Container: "app", Kind: probe.Readiness}
	r := probe.NewResults(probe.Readiness)
	got := ""
	for range 4 {
		next, changed, fact := r.Add(key, probe.Answer{Outcome: probe.Outcome{Result: probe.Success}}, spec)
		switch {
		case changed:
			got += "healthy "
		case fact != nil:
			got += "recorded "
		default:
			got += "- "
		}
		r = next
	}
	if want := "recorded - healthy - "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
