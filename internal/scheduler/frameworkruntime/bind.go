package frameworkruntime

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// InlineBindPlugin is a Bind plugin that can write a binding while no goroutine waits for the
// answer.
type InlineBindPlugin interface {
	framework.BindPlugin
	// BindInline begins to bind and does not wait; false: it did nothing. then is called once with
	// how it ended, by a goroutine that it must not hold up; not done means that Bind must be
	// called.
	BindInline(p *v1.Pod, node string, then func(done bool, s *framework.Status)) bool
}

// RunBindPluginsInline binds a Pod for which nothing is left to do but Bind: it does not wait at
// Permit, no plugin has anything to prepare in PreBind, and the only Bind plugin is an
// InlineBindPlugin. False: nothing was done, and the Pod must go through WaitOnPermit, PreBind and
// Bind. then is called as BindInline calls it.
func (p *Profile) RunBindPluginsInline(ctx context.Context, c PodCycle,
	then func(done bool, s *framework.Status)) bool {
	if len(p.bind) != 1 || p.HasOutOfTreePlugins() || len(p.Handle.deps.Extenders) > 0 ||
		p.Handle.deps.WaitingPods.get(c.Pod.UID) != nil {
		return false
	}
	binder, ok := p.bind[0].(InlineBindPlugin)
	if !ok {
		return false
	}
	began := time.Now()
	for _, pl := range p.preBind {
		if _, s := pl.PreBindPreFlight(ctx, c.State, c.Pod, c.Node); !s.IsSkip() {
			return false
		}
	}
	flown := time.Now()
	hook := p.Handle.deps.Hooks.ObservePoint
	if hook == nil {
		hook = func(PointDuration) {}
	}
	return binder.BindInline(c.Pod, c.Node, func(done bool, s *framework.Status) {
		if done {
			if !s.IsSuccess() {
				s.SetPlugin(binder.Name())
			}
			s = asStatus(s, "Bind")
			hook(PointDuration{Profile: p.Name, Point: "PreBindPreFlight", Code: framework.Skip,
				Took: flown.Sub(began)})
			hook(PointDuration{Profile: p.Name, Point: "PreBind", Took: flown.Sub(began)})
			bind := PointDuration{Profile: p.Name, Point: "Bind", Code: s.Code(), Took: time.Since(flown)}
			hook(bind)
			if c.State.ShouldRecordPluginMetrics() {
				bind.Plugin = binder.Name()
				hook(bind)
			}
		}
		then(done, s)
	})
}

// RunBindPlugins runs Bind plugins until one does not skip the Pod, and blocks until it is bound or
// refused.
func (p *Profile) RunBindPlugins(ctx context.Context, c PodCycle) *framework.Status {
	return p.observePoint("Bind", func() *framework.Status { return p.runBindPlugins(ctx, c) })
}

func (p *Profile) runBindPlugins(ctx context.Context, c PodCycle) *framework.Status {
	if done, err := p.Handle.ExtendersFor(c.Pod).Bind(ctx, c.Pod, c.Node); done {
		if err != nil {
			return framework.AsStatus(fmt.Errorf("extender: %w", err))
		}
		return nil
	}
	skipped := 0
	s := runPlugins(p.pluginTimer("Bind", c.State), p.bind,
		func(pl framework.BindPlugin) *framework.Status { return pl.Bind(ctx, c.State, c.Pod, c.Node) },
		func(s *framework.Status) bool {
			if s.IsSkip() {
				skipped++
			}
			return !s.IsSkip()
		})
	if skipped == len(p.bind) {
		return framework.NewStatus(framework.Error, "all bind plugins skipped the Pod")
	}
	return asStatus(s, "Bind")
}

// RunPostBindPlugins runs PostBind for a Pod that is bound.
func (p *Profile) RunPostBindPlugins(ctx context.Context, c PodCycle) {
	p.observePoint("PostBind", func() *framework.Status {
		return runPlugins(p.pluginTimer("PostBind", c.State), p.postBind,
			func(pl framework.PostBindPlugin) *framework.Status {
				pl.PostBind(ctx, c.State, c.Pod, c.Node)
				return nil
			}, func(*framework.Status) bool { return false }) // the Pod is bound, whatever happens here
	})
}
