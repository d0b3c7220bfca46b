package glue

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// Span is how long an extension point took for a Pod, or one plugin at it.
type Span struct {
	Profile string
	Point   string
	Plugin  string // empty: all plugins of the point
	Code    framework.Code
	Took    time.Duration
	Wait    bool // the time a Pod waited at Permit
}

// timed tells how long a point took.
func (p *Profile) timed(point string, ask func() *framework.Status) *framework.Status {
	told := p.Handle.deps.Told.Took
	if told == nil {
		return ask()
	}
	began := time.Now()
	s := ask()
	told(Span{Profile: p.Name, Point: point, Code: s.Code(), Took: time.Since(began)})
	return s
}

// clock makes a stop watch for the plugins of a point; nil in cycles whose plugins are not measured (upstream measures one in ten).
func (p *Profile) clock(point string, state framework.CycleState) func(plugin string) func(*framework.Status) {
	told := p.Handle.deps.Told.Took
	if told == nil || state == nil || !state.ShouldRecordPluginMetrics() {
		return nil
	}
	return func(plugin string) func(*framework.Status) {
		began := time.Now()
		return func(s *framework.Status) {
			told(Span{Profile: p.Name, Point: point, Plugin: plugin, Code: s.Code(), Took: time.Since(began)})
		}
	}
}

// waited tells how long a Pod waited at Permit.
func (p *Profile) waited(pod *v1.Pod, wait func() *framework.Status) *framework.Status {
	told := p.Handle.deps.Told.Took
	if told == nil || p.Handle.deps.Waiting.find(pod.UID) == nil {
		return wait()
	}
	began := time.Now()
	s := wait()
	told(Span{Profile: p.Name, Point: "Permit", Code: s.Code(), Took: time.Since(began), Wait: true})
	return s
}
