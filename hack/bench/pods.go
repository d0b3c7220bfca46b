package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-project/gantry/test/replay/instance"
)

// pods measures create → Running as a client sees it, and splits it into Gantry's own share and that of calls to the runtime.
func (b *bench) pods(ctx context.Context) error {
	i, c, err := b.running(ctx)
	if i != nil {
		defer b.remove(i)
	}
	if err != nil {
		return err
	}
	seen, err := c.follow(ctx, "")
	if err != nil {
		return err
	}
	defer seen.stop()
	if _, err := seen.wait(ctx, 1); err != nil { // the warm-up Pod
		return err
	}
	one, err := b.oneByOne(ctx, c, seen, b.times(30))
	if err != nil {
		return err
	}
	rows := [][]string{}
	more, err := measure(ctx, i, fmt.Sprintf("%d one by one", len(one)), one)
	if err != nil {
		return err
	}
	rows = append(rows, more...)
	if err := c.empty(ctx); err != nil {
		return err
	}
	many, err := b.atOnce(ctx, c, seen, b.times(50))
	if err != nil {
		return err
	}
	if more, err = measure(ctx, i, fmt.Sprintf("%d at once", len(many)), many); err != nil {
		return err
	}
	b.page.add(section{
		Title: "Pod start",
		How: "busybox `sleep`, image present, one node. *Client* is from the call that creates to the watch event with phase Running. The rest is from the journal (`gantry trace -o json`): " +
			"what was spent in CRI calls, and what was spent in none (admission, storage, scheduling, binding, the kubelet's work, status), from created to Running. " +
			"Many at once wait for two cores and for each other; what a Pod waits outside of a call counts as ours.",
		Head:   []string{"Pods", "Share", "p50, ms", "p99, ms"},
		Rows:   append(rows, more...),
		Budget: "client p50 ≤ 200 ms and own share p99 ≤ 10 ms, one by one",
	})
	return nil
}

func (b *bench) oneByOne(ctx context.Context, c *cluster, seen *follower, n int) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	for k := range n {
		name := fmt.Sprintf("single-%d", k)
		begin := time.Now()
		if err := c.create(ctx, sleeper(name)); err != nil {
			return nil, err
		}
		at, err := seen.wait(ctx, 1)
		if err != nil {
			return nil, err
		}
		out[name] = at[name].Sub(begin)
	}
	return out, nil
}

func (b *bench) atOnce(ctx context.Context, c *cluster, seen *follower, n int) (map[string]time.Duration, error) {
	begins := map[string]time.Time{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	for k := range n {
		wg.Go(func() {
			name := fmt.Sprintf("many-%d", k)
			begin := time.Now()
			err := c.create(ctx, sleeper(name))
			mu.Lock()
			defer mu.Unlock()
			begins[name] = begin
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return nil, failed
	}
	at, err := seen.wait(ctx, n)
	if err != nil {
		return nil, err
	}
	out := map[string]time.Duration{}
	for name, t := range at {
		out[name] = t.Sub(begins[name])
	}
	return out, nil
}

// measure makes the rows of one group of Pods.
func measure(ctx context.Context, i *instance.Instance, what string, took map[string]time.Duration) ([][]string, error) {
	var client, own, calls []time.Duration
	for name, d := range took {
		client = append(client, d)
		o, c, err := shares(ctx, i, name)
		if err != nil {
			return nil, err
		}
		own, calls = append(own, o), append(calls, c)
	}
	row := func(share string, d []time.Duration) []string {
		return []string{what, share, ms(quantile(d, 0.5)), ms(quantile(d, 0.99))}
	}
	return [][]string{row("client", client), row("own", own), row("CRI", calls)}, nil
}

// shares reads a Pod's journal: what of created → running was spent in calls, and what was not.
func shares(ctx context.Context, i *instance.Instance, pod string) (own, calls time.Duration, err error) {
	out, errs, code := i.Gantry(ctx, "trace", "pod/"+pod, "-n", "default", "-o", "json", "--kubeconfig", i.Kubeconfig())
	if code != 0 {
		return 0, 0, fmt.Errorf("gantry trace pod/%s: %s", pod, errs)
	}
	type life struct {
		Shares []struct {
			Name  string
			Took  time.Duration `json:"tookNanoseconds"`
			Calls time.Duration `json:"callsNanoseconds"`
			Init  time.Duration `json:"initNanoseconds"`
		}
	}
	var l life
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		var many []life
		if json.Unmarshal([]byte(out), &many) != nil || len(many) == 0 {
			return 0, 0, fmt.Errorf("gantry trace pod/%s: %w", pod, err)
		}
		l = many[len(many)-1]
	}
	reached := false
	for _, s := range l.Shares {
		if s.Name == "created → bound" || s.Name == "bound → running" || s.Name == "created → running" {
			own, calls = own+s.Took-s.Calls-s.Init, calls+s.Calls
			reached = reached || s.Name != "created → bound"
		}
	}
	if !reached {
		return 0, 0, fmt.Errorf("the journal of pod/%s does not tell when it ran", pod)
	}
	return own, calls, nil
}
