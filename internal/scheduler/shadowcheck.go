package scheduler

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	schedulermetrics "github.com/gantry-project/gantry/internal/scheduler/metrics"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// uncheckedResults is the resultChecker of a scheduler without ShadowCheck.
type uncheckedResults struct{}

// schedulePod implements resultChecker.
func (uncheckedResults) schedulePod(ctx context.Context, in schedule.Input) *schedule.Result {
	return schedule.SchedulePod(ctx, in)
}

// shadowCheck is the resultChecker that schedules each Pod a second time without cached results, by
// asking every plugin about every node, and reports when the two differ. It costs what the cache
// saves, and more.
type shadowCheck struct {
	checks, differences *metrics.Counter
	journal             journal.Sink
}

// newShadowCheck registers its counters with r; nil: with a registry of its own.
func newShadowCheck(r metrics.KubeRegistry, j journal.Sink) *shadowCheck {
	if r == nil {
		r = metrics.NewKubeRegistry()
	}
	count := func(name, help string) *metrics.Counter {
		return metrics.NewCounter(&metrics.CounterOpts{Namespace: "gantry", Subsystem: schedulermetrics.Subsystem,
			Name: name,
			Help: help, StabilityLevel: metrics.ALPHA})
	}
	s := &shadowCheck{
		journal: j,
		checks: count("shadow_checks_total",
			"Rulings, and searches for victims, that were made a second time by asking every plugin about every node."),
		differences: count("shadow_differences_total", "Of these, those that differed from the one made from memory."),
	}
	r.MustRegister(s.checks, s.differences)
	return s
}

// report counts a check and states the differences it found. Any goroutine may call it: searches
// for victims are checked too.
func (s *shadowCheck) report(ctx context.Context, p *v1.Pod, different []string) {
	s.checks.Inc()
	if len(different) == 0 {
		return
	}
	s.differences.Inc()
	text := strings.Join(different, "; ")
	klog.FromContext(ctx).Error(nil, "What comes from memory differs from the plain way, which is used",
		"pod", klog.KObj(p), "differences", text)
	s.journal.Put(podRef(p), journal.Acted{Controller: "scheduler", Action: "shadow check failed", Message: text})
}

// schedulePod implements resultChecker: the result without cached results counts when they differ.
func (s *shadowCheck) schedulePod(ctx context.Context, in schedule.Input) *schedule.Result {
	picked := 0
	pick := in.PickTie
	in.PickTie = func(n int) int {
		picked = pick(n)
		return picked
	}
	quick := schedule.SchedulePod(ctx, in)
	again := in
	again.Cache, again.Buffers, again.State, again.TimePoint, again.PluginTimer = nil, nil,
		frameworkruntime.NewCycleState(), nil, nil
	again.PickTie = func(n int) int { return min(picked, n-1) }
	plain := schedule.SchedulePod(ctx, again)
	different := schedule.Differences(quick, plain)
	s.report(ctx, in.Pod, different)
	if len(different) == 0 {
		return quick
	}
	again = in
	again.Cache, again.PickTie = nil, func(n int) int { return min(picked, n-1) }
	return schedule.SchedulePod(ctx, again)
}
