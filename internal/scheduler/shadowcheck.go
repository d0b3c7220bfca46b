package scheduler

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// shadowCheck rules, and searches for victims, a second time without memory and tells when the two
// differ. It costs what the memory saves, and more.
type shadowCheck struct {
	checks, differences *metrics.Counter
}

func newShadowCheck(r metrics.KubeRegistry) *shadowCheck {
	if r == nil {
		r = metrics.NewKubeRegistry()
	}
	count := func(name, help string) *metrics.Counter {
		return metrics.NewCounter(&metrics.CounterOpts{Namespace: "gantry", Subsystem: subsystem, Name: name,
			Help: help, StabilityLevel: metrics.ALPHA})
	}
	s := &shadowCheck{
		checks: count("shadow_checks_total",
			"Rulings, and searches for victims, that were made a second time by asking every plugin about every node."),
		differences: count("shadow_differences_total", "Of these, those that differed from the one made from memory."),
	}
	r.MustRegister(s.checks, s.differences)
	return s
}

// reporter counts a check and tells of the differences it found.
func (s *shadowCheck) reporter(j journal.Sink) func(context.Context, *v1.Pod, []string) {
	return func(ctx context.Context, p *v1.Pod, different []string) {
		s.checks.Inc()
		if len(different) == 0 {
			return
		}
		s.differences.Inc()
		text := strings.Join(different, "; ")
		klog.FromContext(ctx).Error(nil, "What comes from memory differs from the plain way, which is used",
			"pod", klog.KObj(p), "differences", text)
		j.Put(podRef(p), journal.Acted{Controller: "scheduler", Action: "shadow check failed", Message: text})
	}
}

// schedulePodChecked rules from memory; with ShadowCheck also without, and the plain ruling counts
// when they differ.
func (s *Scheduler) schedulePodChecked(ctx context.Context, in schedule.Input) *schedule.Result {
	in.Cache = &s.eqCache
	if s.shadowCheck == nil {
		return schedule.SchedulePod(ctx, in)
	}
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
	s.shadowCheck.reporter(s.Journal)(ctx, in.Pod, different)
	if len(different) == 0 {
		return quick
	}
	again = in
	again.Cache, again.PickTie = nil, func(n int) int { return min(picked, n-1) }
	return schedule.SchedulePod(ctx, again)
}
