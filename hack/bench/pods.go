package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/internal/trace"
	"github.com/gantry-project/gantry/test/instance"
)

// pods measures starts and ends of Pods on one node, one by one and 50 at once (busybox sh that
// sleeps, image present), and splits them into calls to the runtime and Gantry's own share.
// "client" is from the call that creates to the watch event with phase Running, and from the call
// that deletes to the event that the Pod is gone. "CRI" is what of it the journal has in calls to
// the runtime, in the waits for a turn to make one, and in its processes' own end; "own" is the
// rest: client and HTTPS, admission, storage, scheduling, binding, the kubelet's work, statuses,
// and what a Pod waits outside of a call. "own as traced" is `gantry trace`'s: from the stored Pod
// to the kubelet's knowledge that it runs. Stages are described at startStages.
func (b *bench) pods(ctx context.Context) ([]result.Figure, error) {
	n, err := b.newNode(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer n.remove(b)
	var figures []result.Figure
	for _, g := range []struct {
		name           string
		rounds, atOnce int
	}{{"one by one", b.times(30), 1}, {"at once", 1, b.times(50)}} {
		l, err := n.lives(ctx, g.rounds, g.atOnce)
		if err != nil {
			return nil, err
		}
		figures = append(figures, l.figures(g.name)...)
	}
	return figures, nil
}

// lives is the life cycles of some Pods.
type lives struct {
	start, end    []time.Duration // as observed by the client
	starts, ends  [][]stage
	traced, calls []time.Duration // own share and calls of starts, as gantry trace has them
}

// lives runs life cycles, atOnce at a time, and reads their journals.
func (n *nodeBench) lives(ctx context.Context, rounds, atOnce int) (lives, error) {
	all := lives{}
	for range rounds {
		var names []string
		for range atOnce {
			n.made++
			names = append(names, fmt.Sprintf("life-%d", n.made))
		}
		pods, err := n.life(ctx, names)
		if err != nil {
			return all, err
		}
		for _, p := range pods {
			if err := all.add(ctx, n.cluster, p); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// add reads the journal of a deleted Pod. The watch event may come before the journal entry.
func (l *lives) add(ctx context.Context, c *cluster, p lived) error {
	var life trace.PodTrace
	var start, end []stage
	var traced, calls time.Duration
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := instance.Poll(soon, 20*time.Millisecond, func() (err error) {
		if life, err = c.lifeOf(ctx, p.name); err != nil {
			return err
		}
		if start, err = startStages(life, p.created, p.ran); err != nil {
			return err
		}
		if end, err = endStages(life, p.deleted, p.gone); err != nil {
			return err
		}
		traced, calls, err = shares(life)
		return err
	})
	l.start, l.end = append(l.start, p.ran.Sub(p.created)), append(l.end, p.gone.Sub(p.deleted))
	l.starts, l.ends = append(l.starts, start), append(l.ends, end)
	l.traced, l.calls = append(l.traced, traced), append(l.calls, calls)
	return err
}

// shares splits created → running, by the journal, into calls and the rest.
func shares(l trace.PodTrace) (own, calls time.Duration, err error) {
	reached := false
	for _, s := range l.Breakdown {
		if s.Name == "created → bound" || s.Name == "bound → running" || s.Name == "created → running" {
			own, calls = own+s.Own(), calls+s.Calls
			reached = reached || s.Name != "created → bound"
		}
	}
	if !reached {
		return 0, 0, fmt.Errorf("the journal of pod/%s does not say when it ran", l.Ref.Name)
	}
	return own, calls, nil
}

// owns returns the own shares of whole starts or ends.
func owns(pods [][]stage) (out []time.Duration) {
	for _, p := range pods {
		out = append(out, sum(p).own)
	}
	return out
}

func inCalls(pods [][]stage) (out []time.Duration) {
	for _, p := range pods {
		out = append(out, sum(p).calls)
	}
	return out
}

// figures returns the figures of whole life cycles and of their stages.
func (l lives) figures(name string) []result.Figure {
	return slices.Concat([]result.Figure{
		result.Durations(name+"/start, client", l.start), result.Durations(name+"/start, own", owns(l.starts)),
		result.Durations(name+"/start, own as traced", l.traced),
		result.Durations(name+"/start, CRI", inCalls(l.starts)),
		result.Durations(name+"/end, client", l.end), result.Durations(name+"/end, own", owns(l.ends)),
		result.Durations(name+"/end, CRI", inCalls(l.ends)),
	}, stageFigures(name+"/start", l.starts), stageFigures(name+"/end", l.ends))
}
