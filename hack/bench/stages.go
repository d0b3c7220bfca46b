package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/trace"
)

// lifeOf returns the journal of the last Pod that had the name.
func (c *cluster) lifeOf(ctx context.Context, pod string) (trace.PodTrace, error) {
	at := "/apis/journal.gantry.dev/v1alpha1/namespaces/default/podjournals/" + pod
	get := c.client.Discovery().RESTClient().Get().AbsPath(at).SetHeader("Accept", "application/json")
	raw, err := get.DoRaw(ctx)
	if err != nil {
		return trace.PodTrace{}, fmt.Errorf("journal of pod/%s: %w", pod, err)
	}
	var all struct{ Entries []journal.Entry }
	if err := json.Unmarshal(raw, &all); err != nil {
		return trace.PodTrace{}, fmt.Errorf("journal of pod/%s: %w", pod, err)
	}
	lives := trace.PodTraces(all.Entries)
	if len(lives) == 0 {
		return trace.PodTrace{}, fmt.Errorf("the journal holds nothing of pod/%s", pod)
	}
	return lives[len(lives)-1], nil
}

// mark is the moment at which a Pod's start or end passes from one component to the next, and the
// name of the stage that ends there.
type mark struct {
	stage string
	at    time.Time
}

// stage is one stage of one Pod: time in calls to the runtime, the rest, and the part of the rest
// that waited for the store.
type stage struct {
	name              string
	calls, own, store time.Duration
}

// first returns the first entry of a trace that matches, last the last one.
func first(l trace.PodTrace, is func(journal.Fact) bool) (journal.Entry, bool) {
	i := slices.IndexFunc(l.Entries, func(e journal.Entry) bool { return is(e.Fact) })
	if i < 0 {
		return journal.Entry{}, false
	}
	return l.Entries[i], true
}

func last(l trace.PodTrace, is func(journal.Fact) bool) (journal.Entry, bool) {
	l.Entries = slices.Clone(l.Entries)
	slices.Reverse(l.Entries)
	return first(l, is)
}

func called(methods ...string) func(journal.Fact) bool {
	return func(f journal.Fact) bool {
		c, ok := f.(journal.Called)
		return ok && slices.Contains(methods, c.Method)
	}
}

func wrote(verb, subresource string) func(journal.Fact) bool {
	return func(f journal.Fact) bool {
		w, ok := f.(journal.Written)
		return ok && w.Verb == verb && w.Subresource == subresource
	}
}

func began(e journal.Entry) time.Time {
	if c, ok := e.Fact.(journal.Called); ok {
		return e.At.Add(-time.Duration(c.Took))
	}
	return e.At
}

// startStages splits a Pod's start, from the client's call to the event that shows it Running.
// Waits for the store are those of the writes on the way, from the final object to etcd's
// acknowledgement, with a sync to disk.
func startStages(l trace.PodTrace, from, seen time.Time) ([]stage, error) {
	created, a := first(l, wrote("create", ""))
	bound, b := first(l, wrote("create", "binding"))
	sandbox, c := first(l, called("RunPodSandbox"))
	started, d := last(l, called("StartContainer"))
	if !a || !b || !c || !d {
		return nil, fmt.Errorf("the journal of pod/%s does not say its start", l.Ref.Name)
	}
	return cut(l, from, []mark{
		{"call → created", created.At}, {"created → bound", bound.At}, {"bound → sandbox begun", began(sandbox)},
		{"sandbox begun → containers started", started.At}, {"started → Running seen", seen},
	}), nil
}

// endStages splits a Pod's end, from the client's call to the event that it is gone.
func endStages(l trace.PodTrace, from, seen time.Time) ([]stage, error) {
	marked, a := first(l, func(f journal.Fact) bool { _, ok := f.(journal.Deleting); return ok })
	stop, b := first(l, called("StopContainer"))
	stopped, c := first(l, called("StopPodSandbox"))
	removed, d := first(l, func(f journal.Fact) bool { _, ok := f.(journal.Removed); return ok })
	if !a || !b || !c || !d {
		return nil, fmt.Errorf("the journal of pod/%s does not say its end", l.Ref.Name)
	}
	return cut(l, from, []mark{
		{"call → marked", marked.At}, {"marked → stop begun", began(stop)},
		{"stop begun → sandbox stopped", stopped.At},
		{"stopped → removed", removed.At}, {"removed → gone seen", seen},
	}), nil
}

func cut(l trace.PodTrace, from time.Time, marks []mark) []stage {
	var out []stage
	for _, m := range marks {
		calls := l.InCalls(from, m.at)
		out = append(out, stage{m.stage, calls, max(0, m.at.Sub(from)-calls), l.InStore(from, m.at, leads)})
		if m.at.After(from) {
			from = m.at
		}
	}
	return out
}

// leads reports whether what comes next waits for a write; intermediate statuses delay nothing.
func leads(f journal.Fact) bool {
	w, ok := f.(journal.Written)
	if !ok || w.Subresource != "status" {
		return true
	}
	return slices.Contains(w.Changed, "status.phase")
}

// sum adds up the stages of one Pod.
func sum(parts []stage) stage {
	total := stage{name: "all"}
	for _, p := range parts {
		total.calls, total.own, total.store = total.calls+p.calls, total.own+p.own, total.store+p.store
	}
	return total
}

// stageFigures returns the figures of each stage of many Pods, and of all stages: the own share,
// and the part of it that waited for the store. Quantiles of stages do not add up to those of all.
func stageFigures(name string, pods [][]stage) []result.Figure {
	if len(pods) == 0 {
		return nil
	}
	var figures []result.Figure
	add := func(stageName string, of func([]stage) stage) {
		var own, store []time.Duration
		for _, p := range pods {
			own, store = append(own, of(p).own), append(store, of(p).store)
		}
		figures = append(figures, result.Durations(name+"/"+stageName+"/own", own),
			result.Durations(name+"/"+stageName+"/store", store))
	}
	for i, p := range pods[0] {
		add(p.name, func(stages []stage) stage { return stages[i] })
	}
	add("all", sum)
	return figures
}
