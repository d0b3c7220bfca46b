package bind

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/glue"
)

// Ledger keeps the claims on nodes.
type Ledger interface {
	// Assume takes a node's room for a Pod before the API server knows.
	Assume(p *v1.Pod, node string) error
	// Forget takes that back; a Pod that the API server has confirmed stays.
	Forget(p *v1.Pod)
	// Release takes an assumption back that was made in thought: nobody was refused because of it, so nobody is woken.
	Release(p *v1.Pod)
}

// Failure is why a chosen node did not get the Pod.
type Failure struct {
	Point  string // Assume, Reserve, Permit, PreBind, Bind
	Status *framework.Status
}

// Rejected tells whether a plugin turned the Pod away, as against an error.
func (f *Failure) Rejected() bool { return f.Status.IsRejected() }

// Binder carries out choices.
type Binder struct {
	Slots  chan struct{} // as many bindings are written at once as it has capacity, so that the API server is not flooded; nil: any number
	Ledger Ledger
	Done   func(p *v1.Pod) // the Pod's fate is decided as far as other Pods can know: its events need not be kept for it any longer; may be nil
}

// On gives the Pod as it will be on the node. Only spec.nodeName differs; all else is shared.
func On(p *v1.Pod, node string) *v1.Pod {
	c := *p
	c.Spec.NodeName = node
	return &c
}

// Claim takes the node's room and asks Reserve and Permit plugins. c.Pod must be On the node.
func (b *Binder) Claim(ctx context.Context, p *glue.Profile, c glue.Cycle) *Failure {
	if f := b.Hold(ctx, p, c); f != nil {
		return f
	}
	return b.Permit(ctx, p, c)
}

// Hold is the first half of Claim: it takes the node's room and asks Reserve plugins.
func (b *Binder) Hold(ctx context.Context, p *glue.Profile, c glue.Cycle) *Failure {
	if err := b.Ledger.Assume(c.Pod, c.Node); err != nil {
		return &Failure{"Assume", framework.AsStatus(err)}
	}
	if s := p.Reserve(ctx, c); !s.IsSuccess() {
		return b.undo(ctx, p, c, &Failure{"Reserve", s})
	}
	return nil
}

// Release takes Hold back: a group that cannot be complete holds nothing.
func (b *Binder) Release(ctx context.Context, p *glue.Profile, c glue.Cycle) {
	p.Unreserve(ctx, c)
	b.Ledger.Release(c.Pod)
}

// Permit is the second half of Claim.
func (b *Binder) Permit(ctx context.Context, p *glue.Profile, c glue.Cycle) *Failure {
	if s := p.Permit(ctx, c); !s.IsSuccess() {
		return b.undo(ctx, p, c, &Failure{"Permit", s})
	}
	return nil
}

// Commit waits for Permit, prepares and binds.
func (b *Binder) Commit(ctx context.Context, p *glue.Profile, c glue.Cycle) *Failure {
	if s := p.WaitOnPermit(ctx, c.Pod); !s.IsSuccess() {
		return b.undo(ctx, p, c, &Failure{"Permit", s})
	}
	if s := b.preBind(ctx, p, c); !s.IsSuccess() {
		return b.undo(ctx, p, c, &Failure{"PreBind", s})
	}
	if b.Done != nil {
		b.Done(c.Pod)
	}
	if s := b.bind(ctx, p, c); !s.IsSuccess() {
		return b.undo(ctx, p, c, &Failure{"Bind", s})
	}
	p.PostBind(ctx, c)
	return nil
}

// Unbound undoes everything for a Pod whose binding was refused.
func (b *Binder) Unbound(ctx context.Context, p *glue.Profile, c glue.Cycle, s *framework.Status) *Failure {
	return b.undo(ctx, p, c, &Failure{"Bind", s})
}

// bind writes when a slot is free.
func (b *Binder) bind(ctx context.Context, p *glue.Profile, c glue.Cycle) *framework.Status {
	if b.Slots != nil {
		select {
		case b.Slots <- struct{}{}:
			defer func() { <-b.Slots }()
		case <-ctx.Done():
			return framework.AsStatus(context.Cause(ctx))
		}
	}
	return p.Bind(ctx, c)
}

// preBind can be cut short by preemption until it is over.
func (b *Binder) preBind(ctx context.Context, p *glue.Profile, c glue.Cycle) *framework.Status {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.Handle.AddPodInPreBind(c.Pod.UID, cancel)
	defer p.Handle.RemovePodInPreBind(c.Pod.UID)
	if s := p.PreBind(ctx, c); !s.IsSuccess() {
		return s
	}
	if !p.Handle.GetPodInPreBind(c.Pod.UID).MarkPrebound() {
		return framework.AsStatus(fmt.Errorf("binding cycle canceled: %w", context.Cause(ctx)))
	}
	return nil
}

func (b *Binder) undo(ctx context.Context, p *glue.Profile, c glue.Cycle, f *Failure) *Failure {
	p.Unreserve(ctx, c)
	b.Ledger.Forget(c.Pod)
	return f
}
