package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-project/gantry/internal/trace"
	"github.com/gantry-project/gantry/test/replay/instance"
)

// pods measures starts and ends of Pods as a client sees them, and splits them into Gantry's own share and that of calls to the runtime.
func (b *bench) pods(ctx context.Context) error {
	n, err := b.newNode(ctx, nil)
	if err != nil {
		return err
	}
	defer n.remove(b)
	one, many := b.times(30), b.times(50)
	var rows, stages [][]string
	for _, group := range []struct {
		name         string
		many, atOnce int
	}{{fmt.Sprintf("%d one by one", one), one, 1}, {fmt.Sprintf("%d at once", many), 1, many}} {
		g, err := n.lives(ctx, group.name, group.many, group.atOnce)
		if err != nil {
			return err
		}
		rows = append(rows, g.rows()...)
		stages = append(stages, stageRows(g.name+", start", g.starts)...)
		stages = append(stages, stageRows(g.name+", end", g.ends)...)
	}
	b.page.add(section{
		Title: "Pod start",
		How: "busybox `sh` that sleeps, image present, one node. *Client* is from the call that creates to the watch event with phase Running, and from the call that deletes to the event that it is gone. " +
			"*CRI* is what of it the journal (`gantry trace`) has in calls to the runtime, in the waits for a turn to make one, and in its processes' own end; *own* is the rest: client and HTTPS, admission, storage, scheduling, " +
			"binding, the kubelet's work, statuses. *Own, as traced* is `gantry trace`'s: from the stored Pod to the kubelet's knowledge that it runs. Many at once wait for two cores and for each other; what a Pod waits outside of a call counts as ours.",
		Head:   []string{"Pods", "Share", "p50, ms", "p99, ms"},
		Rows:   rows,
		Budget: "client p50 ≤ 200 ms and own share, as traced, p99 ≤ 10 ms, one by one",
	})
	b.page.add(section{
		Title: "Own share by stage",
		How: "The same Pods: what of each stage was in no call to the runtime, and what of that was waiting for the store (from the object as it is to be written to etcd's acknowledgement, a sync to disk) " +
			"of the writes on the way: create, binding, the status with the phase, the mark of deletion, the removal. *Stop begun → sandbox stopped* holds no wait for the process: that is in the call. Quantiles of stages do not add up to those of all.",
		Head:   []string{"Pods", "Stage", "own p50, ms", "p99, ms", "of it store p50, ms", "p99, ms"},
		Rows:   stages,
		Budget: "all stages of a start but the store ≤ 10 ms p99, one by one",
	})
	return nil
}

// group is the lives of some Pods, started and ended alike.
type group struct {
	name          string
	start, end    []time.Duration // as the client saw them
	starts, ends  [][]part
	traced, calls []time.Duration // own share and calls of starts, as gantry trace has them
}

// lives starts and ends Pods, so many at once, so many times, and reads their journals.
func (n *nodeBench) lives(ctx context.Context, name string, rounds, atOnce int) (group, error) {
	g := group{name: name}
	for range rounds {
		var names []string
		for range atOnce {
			n.made++
			names = append(names, fmt.Sprintf("life-%d", n.made))
		}
		all, err := n.life(ctx, names)
		if err != nil {
			return g, err
		}
		for _, p := range all {
			if err := g.add(ctx, n.cluster, p); err != nil {
				return g, err
			}
		}
	}
	return g, nil
}

// add reads the journal of a Pod that is gone. The watch may bring that before the journal has it.
func (g *group) add(ctx context.Context, c *cluster, p lived) error {
	var l trace.Life
	var start, end []part
	var traced, calls time.Duration
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := instance.Poll(soon, 20*time.Millisecond, func() (err error) {
		if l, err = c.told(ctx, p.name); err != nil {
			return err
		}
		if start, err = startStages(l, p.created, p.ran); err != nil {
			return err
		}
		if end, err = endStages(l, p.deleted, p.gone); err != nil {
			return err
		}
		traced, calls, err = shares(l)
		return err
	})
	g.start, g.end = append(g.start, p.ran.Sub(p.created)), append(g.end, p.gone.Sub(p.deleted))
	g.starts, g.ends = append(g.starts, start), append(g.ends, end)
	g.traced, g.calls = append(g.traced, traced), append(g.calls, calls)
	return err
}

// shares are what a Pod's journal says of created → running: what was spent in calls, and what was not.
func shares(l trace.Life) (own, calls time.Duration, err error) {
	reached := false
	for _, s := range l.Shares {
		if s.Name == "created → bound" || s.Name == "bound → running" || s.Name == "created → running" {
			own, calls = own+s.Own(), calls+s.Calls
			reached = reached || s.Name != "created → bound"
		}
	}
	if !reached {
		return 0, 0, fmt.Errorf("the journal of pod/%s does not tell when it ran", l.Ref.Name)
	}
	return own, calls, nil
}

// owns are the own shares of whole starts or ends.
func owns(pods [][]part) (out []time.Duration) {
	for _, p := range pods {
		out = append(out, sum(p).own)
	}
	return out
}

func inCalls(pods [][]part) (out []time.Duration) {
	for _, p := range pods {
		out = append(out, sum(p).calls)
	}
	return out
}

// rows are the lines of the table of shares.
func (g group) rows() [][]string {
	row := func(share string, d []time.Duration) []string {
		return []string{g.name, share, ms(quantile(d, 0.5)), ms(quantile(d, 0.99))}
	}
	return [][]string{
		row("start, client", g.start), row("start, own", owns(g.starts)), row("start, own, as traced", g.traced), row("start, CRI", inCalls(g.starts)),
		row("end, client", g.end), row("end, own", owns(g.ends)), row("end, CRI", inCalls(g.ends)),
	}
}
