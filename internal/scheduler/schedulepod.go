package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/metrics"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// recordPluginMetricsEvery is in which cycles plugins are timed one by one: every tenth, where
// upstream does so at random.
const recordPluginMetricsEvery = 10

// snapshotSource freezes the cluster for a cycle and lists the nodes that Pods are nominated to.
type snapshotSource interface {
	snapshot() (snap *snapshot.Snapshot, nominatedNodes []string)
}

// resultChecker runs schedule.SchedulePod, and may check what it gives (shadowCheck).
type resultChecker interface {
	schedulePod(ctx context.Context, in schedule.Input) *schedule.Result
}

// decisionRecorder hands decisions to Options.Record.
type decisionRecorder interface {
	// start fixes what a decision is made from; done hands it over with the attempt's fact.
	start(a *schedulingAttempt, in *schedule.Input) (done func())
}

// algorithm is the podScheduler: Filter and Score over a snapshot (schedule.SchedulePod), guarded
// against plugins that panic or hang. The scheduling goroutine alone calls it.
type algorithm struct {
	source        snapshotSource
	current       *frameworkruntime.CurrentSnapshot
	nominations   schedule.Nominations // nil: they are read anew in each cycle
	check         resultChecker
	recorder      decisionRecorder
	metrics       *metrics.Metrics
	pluginTimeout time.Duration
	percentage    *int32 // percentageOfNodesToScore of the configuration
	minFeasible   int    // nodes to find feasible whatever the percentage says
	scratch       *scratch
	nextStartNode int // index of the node that Filter begins at
	cycleCount    int
}

// scratch is what cycles work with. After a cycle that broke, whose plugin may still run, the next
// gets a new one.
type scratch struct {
	buffers schedule.Buffers
	eqCache schedule.EquivalenceCache
	rand    *rand.Rand
}

func newScratch(seed uint64) *scratch { return &scratch{rand: rand.New(rand.NewPCG(seed, 0))} }

// intN chooses among n, for plugins that the scheduling goroutine runs.
func (s *algorithm) intN(n int) int { return s.scratch.rand.IntN(n) }

// schedulePod implements podScheduler. A cycle whose plugin is not built in and does not return
// within the timeout is left alone, with its scratch.
func (s *algorithm) schedulePod(ctx context.Context, a *schedulingAttempt) error {
	s.cycleCount++
	a.state.RecordPluginMetrics = s.cycleCount%recordPluginMetricsEvery == 0
	if err := s.runWithTimeout(ctx, a); err != nil {
		s.scratch = newScratch(s.scratch.rand.Uint64())
		return err
	}
	if a.result.Scheduled() {
		s.nextStartNode += a.result.EvaluatedNodes
	}
	return nil
}

// runWithTimeout runs a scheduling attempt. With out-of-tree plugins, which may hang, it runs in a
// goroutine of its own on a copy of a: after pluginTimeout the error names the plugins that have
// not returned, and what they still do has no effect on a.
func (s *algorithm) runWithTimeout(ctx context.Context, a *schedulingAttempt) error {
	if !a.profile.HasOutOfTreePlugins() {
		return s.runRecovering(ctx, a)
	}
	b := *a
	b.pointDurations = map[string]journal.Took{}
	done := make(chan error, 1)
	go func() { done <- s.runRecovering(ctx, &b) }()
	t := time.NewTimer(s.pluginTimeout)
	defer t.Stop()
	select {
	case err := <-done:
		*a = b
		return err
	case <-t.C:
		return fmt.Errorf("plugin %s has not returned within %v", quoteNames(a.profile.HungPlugins()), s.pluginTimeout)
	}
}

func quoteNames(names []string) string {
	if len(names) == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%q", strings.Join(names, ", "))
}

// runRecovering turns a panic into an error that names the plugin where the stack shows it.
func (s *algorithm) runRecovering(ctx context.Context, a *schedulingAttempt) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		p := frameworkruntime.NewPluginPanic(v)
		klog.FromContext(ctx).Error(nil, "A plugin panicked", "plugin", p.PluginName(), "pod", klog.KObj(a.pod()),
			"panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
		err = fmt.Errorf("plugin %q panicked: %v", p.PluginName(), p.Value)
	}()
	s.run(ctx, a)
	return nil
}

// run asks every plugin about every node and sets the attempt's result and fact.
func (s *algorithm) run(ctx context.Context, a *schedulingAttempt) {
	snap, nominated := s.source.snapshot()
	s.current.Set(snap)
	in := s.input(a, snap)
	if nominated != nil {
		in.NominatedNodes, in.NominatedPodsForNode = nominated, a.profile.Handle.NominatedPodsForNode
		in.Nominations = s.nominations
	}
	done := s.recorder.start(a, &in)
	a.result = s.check.schedulePod(ctx, in)
	if !a.result.Scheduled() {
		a.failedPoint, a.failedCode = a.lastPoint, a.result.Status.Code()
	}
	s.metrics.Attempts.ObserveAlgorithm(time.Since(a.start))
	s.metrics.Plugins.Observe(a.profile.Plugins, a.result)
	s.metrics.Plugins.SetCacheCounts(a.profile.Name, s.scratch.eqCache.Counts())
	a.fact = a.result.Fact()
	a.fact.Attempt, a.fact.Points, a.fact.Took = a.entry.Attempts, a.pointDurations,
		journal.Took(time.Since(a.start))
	done()
}

// input is what a cycle without nominated Pods works on.
func (s *algorithm) input(a *schedulingAttempt, snap *snapshot.Snapshot) schedule.Input {
	in := schedule.Input{
		Pod: a.pod(), Snapshot: snap, Plugins: a.profile.Plugins, State: a.state, Parallel: a.profile.Handle.Parallel,
		Sample: s.nodesToScore(a.profile), PickTie: s.scratch.rand.IntN, TimePoint: a.timePoint,
		Buffers: &s.scratch.buffers, Cache: &s.scratch.eqCache,
	}
	if a.state.RecordPluginMetrics {
		in.PluginTimer = s.metrics.ExtensionPoints.PluginTimer()
	}
	if all := a.profile.Handle.ExtendersFor(a.pod()); len(all) > 0 {
		in.Extenders = all
	}
	return in
}

// nodesToScore is the sample of nodes that a profile looks for: percentageOfNodesToScore, of which
// absent and 0 mean upstream's adaptive sample.
func (s *algorithm) nodesToScore(p *frameworkruntime.Profile) schedule.Sample {
	percent := s.percentage
	if p.PercentageOfNodesToScore != nil {
		percent = p.PercentageOfNodesToScore
	}
	out := schedule.Sample{AtLeast: s.minFeasible, StartsAt: s.nextStartNode}
	switch {
	case percent == nil, *percent == 0:
		out.Percent = schedule.AdaptivePercentage
	default:
		out.Percent = *percent
	}
	return out
}
