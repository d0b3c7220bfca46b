package bind

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
)

// AssumeCache keeps the claims on nodes.
type AssumeCache interface {
	// AssumePod takes a node's room for a Pod before the API server knows.
	AssumePod(p *v1.Pod, node string) error
	// ForgetPod takes that back; a Pod that the API server has confirmed stays.
	ForgetPod(p *v1.Pod)
	// ForgetPodQuietly takes an assumption back that was made in thought: nobody was refused
	// because of it, so nobody is woken.
	ForgetPodQuietly(p *v1.Pod)
}

// BindFailure is why a chosen node did not get the Pod.
type BindFailure struct {
	Point  string // Assume, Reserve, Permit, PreBind, Bind
	Status *framework.Status
}

// Rejected tells whether a plugin turned the Pod away, as against an error.
func (f *BindFailure) Rejected() bool { return f.Status.IsRejected() }

// Binder carries out choices.
type Binder struct {
	// as many bindings are written at once as it has capacity, so that the API server is not
	// flooded; nil: any number
	Slots chan struct{}
	Cache AssumeCache
	// the Pod's fate is decided as far as other Pods can know: its events need not be kept for it
	// any longer; may be nil
	Done func(p *v1.Pod)
}

// WithNodeName gives the Pod as it will be on the node. Only spec.nodeName differs; all else is
// shared.
func WithNodeName(p *v1.Pod, node string) *v1.Pod {
	c := *p
	c.Spec.NodeName = node
	return &c
}

// AssumeAndReserve takes the node's room and asks Reserve and Permit plugins. c.Pod must be
// WithNodeName the node.
func (b *Binder) AssumeAndReserve(ctx context.Context, p *frameworkruntime.Profile,
	c frameworkruntime.PodCycle) *BindFailure {
	if f := b.Reserve(ctx, p, c); f != nil {
		return f
	}
	return b.RunPermit(ctx, p, c)
}

// Reserve is the first half of Claim: it takes the node's room and asks Reserve plugins.
func (b *Binder) Reserve(ctx context.Context, p *frameworkruntime.Profile, c frameworkruntime.PodCycle) *BindFailure {
	if err := b.Cache.AssumePod(c.Pod, c.Node); err != nil {
		return &BindFailure{"Assume", framework.AsStatus(err)}
	}
	if s := p.RunReservePluginsReserve(ctx, c); !s.IsSuccess() {
		return b.rollBack(ctx, p, c, &BindFailure{"Reserve", s})
	}
	return nil
}

// Unreserve takes Hold back: a group that cannot be complete holds nothing.
func (b *Binder) Unreserve(ctx context.Context, p *frameworkruntime.Profile, c frameworkruntime.PodCycle) {
	p.RunReservePluginsUnreserve(ctx, c)
	b.Cache.ForgetPodQuietly(c.Pod)
}

// RunPermit is the second half of Claim.
func (b *Binder) RunPermit(ctx context.Context, p *frameworkruntime.Profile, c frameworkruntime.PodCycle) *BindFailure {
	if s := p.RunPermitPlugins(ctx, c); !s.IsSuccess() {
		return b.rollBack(ctx, p, c, &BindFailure{"Permit", s})
	}
	return nil
}

// BindingCycle waits for Permit, prepares and binds.
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

// HandleBindFailure undoes everything for a Pod whose binding was refused.
func (b *Binder) HandleBindFailure(ctx context.Context, p *frameworkruntime.Profile, c frameworkruntime.PodCycle,
	s *framework.Status) *BindFailure {
	return b.rollBack(ctx, p, c, &BindFailure{"Bind", s})
}

// bind writes when a slot is free.
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

// preBind can be cut short by preemption until it is over.
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

func (b *Binder) rollBack(ctx context.Context, p *frameworkruntime.Profile, c frameworkruntime.PodCycle,
	f *BindFailure) *BindFailure {
	p.RunReservePluginsUnreserve(ctx, c)
	b.Cache.ForgetPod(c.Pod)
	return f
}
