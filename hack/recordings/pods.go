package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-project/gantry/test/replay"
	"github.com/gantry-project/gantry/test/replay/pods"
)

// runPods replays test/recordings/pods: up to o.parallel cases at once, then those that need the
// node alone, then those that stop the kubelet, on a cluster with separate processes.
func runPods(ctx context.Context, o options, log io.Writer) (*replay.Report, error) {
	all, err := pods.Load(filepath.Join(o.recordings, "pods"))
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(c pods.Case) bool { return !o.only.MatchString(c.Area + "/" + c.Name) })
	r := &podReplay{options: o, log: log, report: &replay.Report{}}
	var together, alone, split []pods.Case
	for _, c := range all {
		switch {
		case c.StopsKubelet():
			c.Recorded.SayWhyNoSandbox()
			split = append(split, c)
		case c.NeedsOwnInstance():
			alone = append(alone, c)
		default:
			together = append(together, c)
		}
	}
	if len(together)+len(alone) > 0 {
		if err := r.replayOn(ctx, false, together, alone); err != nil {
			return nil, err
		}
	}
	if len(split) > 0 {
		if err := r.replayOn(ctx, true, nil, split); err != nil {
			return nil, err
		}
	}
	return r.report, ctx.Err()
}

// podReplay collects results.
type podReplay struct {
	options options
	log     io.Writer

	mu       sync.Mutex
	report   *replay.Report
	deferred []pods.Case // to be run again
}

// replayOn starts a cluster, runs cases concurrently and then one by one, and removes it.
func (r *podReplay) replayOn(ctx context.Context, split bool, together, alone []pods.Case) error {
	p, err := r.newInstance(ctx, split)
	if err != nil {
		return err
	}
	defer func() {
		if err := p.remove(); err != nil {
			fmt.Fprintln(os.Stderr, "recordings:", err)
		}
	}()
	r.concurrently(ctx, p.cluster, together, r.options.parallel, !r.options.again)
	if again := r.deferred; len(again) > 0 {
		r.deferred = nil
		r.concurrently(ctx, p.cluster, again, max(r.options.parallel/3, 1), true)
	}
	if len(alone) > 0 && !split {
		if err := addWidget(ctx, p.cluster); err != nil {
			return err
		}
	}
	for _, c := range alone {
		r.replayOne(ctx, p.cluster, c, !r.options.again)
	}
	for _, c := range r.deferred { // their namespaces are gone by now
		r.replayOne(ctx, p.cluster, c, true)
	}
	r.deferred = nil
	return nil
}

// concurrently runs cases, so many at the same time as parallel says.
func (r *podReplay) concurrently(ctx context.Context, cluster *pods.Cluster, cases []pods.Case, parallel int,
	last bool) {
	pods.Concurrently(ctx, cases, parallel, func(c pods.Case) { r.replayOne(ctx, cluster, c, last) })
}

// replayOne runs a case and returns whether it was equal, and records how equal. An unequal one is
// not recorded but run again later, unless last: a busy machine delays some steps more than others.
func (r *podReplay) replayOne(ctx context.Context, cluster *pods.Cluster, c pods.Case, last bool) (same bool) {
	if ctx.Err() != nil {
		return false
	}
	begin := time.Now()
	got, err := pods.Run(ctx, cluster, &c)
	diffs, near := pods.Compare(&c, got)
	same = err == nil && len(diffs) == 0
	near = err == nil && near
	r.mu.Lock()
	defer r.mu.Unlock()
	verdict := "same"
	if same || last {
		r.report.Add(c.Area, same, near)
	} else {
		c.ByTurn = slices.ContainsFunc(diffs, func(d replay.Difference) bool {
			return strings.HasPrefix(d.Path, "history ") || strings.HasPrefix(d.Path, "events ")
		})
		r.deferred = append(r.deferred, c)
	}
	if !same && last {
		r.report.Explain(replay.Unequal{Name: c.Area + "/" + c.Name, Near: near, Err: err, Differences: diffs})
	}
	if !same {
		verdict = fmt.Sprintf("%d differences", len(diffs))
		if near {
			verdict += ", same where clients look"
		}
	}
	if err != nil {
		verdict = "not replayed: " + err.Error()
	}
	fmt.Fprintf(os.Stderr, "%-52s %5.1f s  %s\n", c.Area+"/"+c.Name, time.Since(begin).Seconds(), verdict)
	pods.Save(filepath.Join(r.options.out, "recordings-pods", c.Name), got)
	return same
}

// addWidget gives the node one example.com/widget, for the area preemption.
func addWidget(ctx context.Context, cluster *pods.Cluster) error {
	patch := `[{"op":"add","path":"/status/capacity/example.com~1widget","value":"1"},{"op":"add",` +
		`"path":"/status/allocatable/example.com~1widget","value":"1"}]`
	return cluster.Send(ctx, http.MethodPatch, "/api/v1/nodes/node-1/status", "application/json-patch+json", patch)
}
