package scheduler

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// shadow rules, and searches for victims, a second time without memory and tells when the two differ. It costs what the memory saves, and more.
type shadow struct {
	checks, differences *metrics.Counter
}

func newShadow(r metrics.KubeRegistry) *shadow {
	if r == nil {
		r = metrics.NewKubeRegistry()
	}
	count := func(name, help string) *metrics.Counter {
		return metrics.NewCounter(&metrics.CounterOpts{Namespace: "gantry", Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	}
	s := &shadow{
		checks:      count("shadow_checks_total", "Rulings, and searches for victims, that were made a second time by asking every plugin about every node."),
		differences: count("shadow_differences_total", "Of these, those that differed from the one made from memory."),
	}
	r.MustRegister(s.checks, s.differences)
	return s
}

// doubted counts a check and tells of the differences it found.
func (s *shadow) doubted(j journal.Sink) func(context.Context, *v1.Pod, []string) {
	return func(ctx context.Context, p *v1.Pod, different []string) {
		s.checks.Inc()
		if len(different) == 0 {
			return
		}
		s.differences.Inc()
		text := strings.Join(different, "; ")
		klog.FromContext(ctx).Error(nil, "What comes from memory differs from the plain way, which is used", "pod", klog.KObj(p), "differences", text)
		j.Put(ref(p), journal.Acted{Controller: "scheduler", Action: "shadow check failed", Message: text})
	}
}

// one rules from memory; with ShadowCheck also without, and the plain ruling counts when they differ.
func (s *Scheduler) one(ctx context.Context, in place.In) *place.Ruling {
	in.Memory = &s.memory
	if s.shadow == nil {
		return place.One(ctx, in)
	}
	picked := 0
	pick := in.Pick
	in.Pick = func(n int) int {
		picked = pick(n)
		return picked
	}
	quick := place.One(ctx, in)
	again := in
	again.Memory, again.Boards, again.State, again.Time, again.Clock = nil, nil, glue.NewState(), nil, nil
	again.Pick = func(n int) int { return min(picked, n-1) }
	plain := place.One(ctx, again)
	different := place.Differences(quick, plain)
	s.shadow.doubted(s.Journal)(ctx, in.Pod, different)
	if len(different) == 0 {
		return quick
	}
	again = in
	again.Memory, again.Pick = nil, func(n int) int { return min(picked, n-1) }
	return place.One(ctx, again)
}
