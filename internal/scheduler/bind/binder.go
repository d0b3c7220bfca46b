package bind

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
)

// AssumeCache is the scheduler cache as the binder assumes Pods in it. Any goroutine may call it.
type AssumeCache interface {
	// AssumePod counts a Pod on a node before the API server knows of it. The error is that it
	// stands on a node already.
	AssumePod(p *v1.Pod, node string) error
	// ForgetPod takes that back and moves Pods that the room may help; a Pod that the API server
	// has confirmed stays.
	ForgetPod(p *v1.Pod)
	// ForgetPodQuietly takes an assumption back that refused no other Pod, so that none is moved.
	ForgetPodQuietly(p *v1.Pod)
}

// BindFailure is why a chosen node did not get the Pod.
type BindFailure struct {
	Point  string // Assume, Reserve, Permit, PreBind, Bind
	Status *framework.Status
}

// Rejected tells whether a plugin refused the Pod, as against an error.
func (f *BindFailure) Rejected() bool { return f.Status.IsRejected() }

// Binder takes a Pod from the chosen node to the binding. Whatever fails, at any point, is rolled
// back in reverse order before the BindFailure is returned:
//
//	scheduling cycle           AssumeAndReserve = Reserve, RunPermit
//	  AssumePod ─► Reserve plugins ─► Permit plugins ─┐
//	                                                  │ the Pod may wait at Permit
//	binding cycle              BindingCycle           ▼
//	  PostBind ◄─ Bind ◄─ slot ◄─ Done ◄─ PreBind ◄─ WaitOnPermit
//	                │
//	any failure     ▼
//	  rollBack: Unreserve of all Reserve plugins, ForgetPod (moves Pods that the room may help)
//
// The inline path skips WaitOnPermit and PreBind, which have nothing to do there, and calls
// HandleBindFailure when the API server refuses the binding. The caller puts the Pod back into the
// queue. Any goroutine may call its methods, one at a time for each Pod.
type Binder struct {
	// as many bindings are written at once as it has capacity, so that the API server is not
	// flooded; nil: any number
	Slots chan struct{}
	Cache AssumeCache
	// called before Bind: events need not be kept for the Pod any longer, because a failed binding
	// is retried whatever happened; may be nil
	Done func(p *v1.Pod)
}

// WithNodeName gives the Pod as it will be on the node. Only spec.nodeName differs; all else is
// shared with p.
func WithNodeName(p *v1.Pod, node string) *v1.Pod {
	c := *p
	c.Spec.NodeName = node
	return &c
}

// AssumeAndReserve assumes the Pod on the node and runs Reserve and Permit plugins; nil when the
// binding cycle may begin. c.Pod must be WithNodeName the node.
func (b *Binder) AssumeAndReserve(ctx context.Context, p *frameworkruntime.Profile,
	c frameworkruntime.PodCycle) *BindFailure {
	if f := b.Reserve(ctx, p, c); f != nil {
		return f
	}
	return b.RunPermit(ctx, p, c)
}

// Reserve is the first half of AssumeAndReserve: it assumes the Pod and runs Reserve plugins. A
// failed Reserve is rolled back.
func (b *Binder) Reserve(ctx context.Context, p *frameworkruntime.Profile, c frameworkruntime.PodCycle) *BindFailure {
	if err := b.Cache.AssumePod(c.Pod, c.Node); err != nil {
		return &BindFailure{"Assume", framework.AsStatus(err)}
	}
	if s := p.RunReservePluginsReserve(ctx, c); !s.IsSuccess() {
		return b.rollBack(ctx, p, c, &BindFailure{"Reserve", s})
	}
	return nil
}

// Unreserve takes Reserve back and moves no other Pods: a PodGroup that cannot be complete gives
// its members' nodes back.
func (b *Binder) Unreserve(ctx context.Context, p *frameworkruntime.Profile, c frameworkruntime.PodCycle) {
	p.RunReservePluginsUnreserve(ctx, c)
	b.Cache.ForgetPodQuietly(c.Pod)
}

// RunPermit is the second half of AssumeAndReserve. A refusal is rolled back.
func (b *Binder) RunPermit(ctx context.Context, p *frameworkruntime.Profile, c frameworkruntime.PodCycle) *BindFailure {
	if s := p.RunPermitPlugins(ctx, c); !s.IsSuccess() {
		return b.rollBack(ctx, p, c, &BindFailure{"Permit", s})
	}
	return nil
}

// BindingCycle waits on Permit, runs PreBind, Bind and PostBind, and blocks until the API server
// has answered. nil when the Pod is bound.
func (b *Binder) BindingCycle(ctx context.Context, p *frameworkruntime.Profile,
	c frameworkruntime.PodCycle) *BindFailure {
	if s := p.WaitOnPermit(ctx, c.Pod); !s.IsSuccess() {
		return b.rollBack(ctx, p, c, &BindFailure{"Permit", s})
	}
	if s := b.preBind(ctx, p, c); !s.IsSuccess() {
		return b.rollBack(ctx, p, c, &BindFailure{"PreBind", s})
	}
	if b.Done != nil {
		b.Done(c.Pod)
	}
	if s := b.bind(ctx, p, c); !s.IsSuccess() {
		return b.rollBack(ctx, p, c, &BindFailure{"Bind", s})
	}
	p.RunPostBindPlugins(ctx, c)
	return nil
}

// HandleBindFailure rolls back a Pod whose inline binding ended with s.
func (b *Binder) HandleBindFailure(ctx context.Context, p *frameworkruntime.Profile, c frameworkruntime.PodCycle,
	s *framework.Status) *BindFailure {
	return b.rollBack(ctx, p, c, &BindFailure{"Bind", s})
}

// bind runs Bind plugins when a slot is free.
func (b *Binder) bind(ctx context.Context, p *frameworkruntime.Profile, c frameworkruntime.PodCycle) *framework.Status {
	if b.Slots != nil {
		select {
		case b.Slots <- struct{}{}:
			defer func() { <-b.Slots }()
		case <-ctx.Done():
			return framework.AsStatus(context.Cause(ctx))
		}
	}
	return p.RunBindPlugins(ctx, c)
}

// preBind runs PreBind plugins; preemption may cancel them until they are over.
func (b *Binder) preBind(ctx context.Context, p *frameworkruntime.Profile,
	c frameworkruntime.PodCycle) *framework.Status {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.Handle.AddPodInPreBind(c.Pod.UID, cancel)
	defer p.Handle.RemovePodInPreBind(c.Pod.UID)
	if s := p.RunPreBindPlugins(ctx, c); !s.IsSuccess() {
		return s
	}
	if !p.Handle.GetPodInPreBind(c.Pod.UID).MarkPrebound() {
		return framework.AsStatus(fmt.Errorf("binding cycle canceled: %w", context.Cause(ctx)))
	}
	return nil
}

// rollBack gives the node back after a failed binding: Unreserve of every Reserve plugin, in
// reverse order, then ForgetPod. It returns f.
func (b *Binder) rollBack(ctx context.Context, p *frameworkruntime.Profile, c frameworkruntime.PodCycle,
	f *BindFailure) *BindFailure {
	p.RunReservePluginsUnreserve(ctx, c)
	b.Cache.ForgetPod(c.Pod)
	return f
}
