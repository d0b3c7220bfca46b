package frameworkruntime

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// PointDuration is how long an extension point took for a Pod, or one plugin at it.
type PointDuration struct {
	Profile    string
	Point      string
	Plugin     string // empty: all plugins of the point
	Code       framework.Code
	Took       time.Duration
	PermitWait bool // the time a Pod waited at Permit
}

// observePoint calls the hook with how long an extension point took.
func (p *Profile) observePoint(point string, ask func() *framework.Status) *framework.Status {
	hook := p.Handle.deps.Hooks.ObservePoint
	if hook == nil {
		return ask()
	}
	began := time.Now()
	s := ask()
	hook(PointDuration{Profile: p.Name, Point: point, Code: s.Code(), Took: time.Since(began)})
	return s
}

// pluginTimer times the plugins of an extension point; nil in cycles whose plugins are not timed
// (upstream times one cycle in ten).
func (p *Profile) pluginTimer(point string, state framework.CycleState) func(plugin string) func(*framework.Status) {
	hook := p.Handle.deps.Hooks.ObservePoint
	if hook == nil || state == nil || !state.ShouldRecordPluginMetrics() {
		return nil
	}
	return func(plugin string) func(*framework.Status) {
		began := time.Now()
		return func(s *framework.Status) {
			hook(PointDuration{Profile: p.Name, Point: point, Plugin: plugin, Code: s.Code(), Took: time.Since(began)})
		}
	}
}

// observePermitWait calls the hook with how long a Pod waited at Permit.
func (p *Profile) observePermitWait(pod *v1.Pod, wait func() *framework.Status) *framework.Status {
	hook := p.Handle.deps.Hooks.ObservePoint
	if hook == nil || p.Handle.deps.WaitingPods.get(pod.UID) == nil {
		return wait()
	}
	began := time.Now()
	s := wait()
	hook(PointDuration{Profile: p.Name, Point: "Permit", Code: s.Code(), Took: time.Since(began), PermitWait: true})
	return s
}
