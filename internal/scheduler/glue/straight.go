package glue

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// Offering is a bind plugin that can write a binding while nobody waits for the answer.
type Offering interface {
	framework.BindPlugin
	// Offer begins to bind; false: it did not. then is told how it ended, by a goroutine that must not be held up; not done means that Bind must be asked.
	Offer(p *v1.Pod, node string, then func(done bool, s *framework.Status)) bool
}

// Straight binds a Pod for which nothing is left to do but that: it does not wait at Permit, no plugin has anything to prepare, and the only bind plugin is Offering. False:
// nothing was done, and the Pod must go from WaitOnPermit to Bind. then is called as Offer calls it.
func (p *Profile) Straight(ctx context.Context, c Cycle, then func(done bool, s *framework.Status)) bool {
	if len(p.bind) != 1 || p.Foreign() || len(p.Handle.deps.Extenders) > 0 || p.Handle.deps.Waiting.find(c.Pod.UID) != nil {
		return false
	}
	binder, ok := p.bind[0].(Offering)
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
	told := p.Handle.deps.Told.Took
	if told == nil {
		told = func(Span) {}
	}
	return binder.Offer(c.Pod, c.Node, func(done bool, s *framework.Status) {
		if done {
			if !s.IsSuccess() {
				s.SetPlugin(binder.Name())
			}
			s = failed(s, "Bind")
			told(Span{Profile: p.Name, Point: "PreBindPreFlight", Code: framework.Skip, Took: flown.Sub(began)})
			told(Span{Profile: p.Name, Point: "PreBind", Took: flown.Sub(began)})
			bind := Span{Profile: p.Name, Point: "Bind", Code: s.Code(), Took: time.Since(flown)}
			told(bind)
			if c.State.ShouldRecordPluginMetrics() {
				bind.Plugin = binder.Name()
				told(bind)
			}
		}
		then(done, s)
	})
}
