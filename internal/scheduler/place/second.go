package place

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// Second has a say about nodes after the plugins: extenders. Refusals name a plugin.
type Second interface {
	Narrow(ctx context.Context, p *v1.Pod, feasible []framework.NodeInfo) (kept []framework.NodeInfo, refused map[string]*framework.Status, err error)
	Weigh(ctx context.Context, p *v1.Pod, feasible []framework.NodeInfo) map[string]int64 // added to the nodes' totals
}

// narrow lets Second take nodes away; false ends the ruling.
func (c *cycle) narrow() bool {
	if c.Second == nil {
		return true
	}
	defer c.Time("Extender")()
	kept, refused, err := c.Second.Narrow(c.ctx, c.Pod, c.feasible)
	if err != nil {
		c.ruling.End = framework.AsStatus(fmt.Errorf("extender: %w", err))
		return false
	}
	for _, n := range c.feasible {
		if s := refused[n.Node().Name]; s != nil {
			c.ruling.refuse(n, s)
		}
	}
	if c.feasible = kept; len(kept) == 0 {
		c.ruling.End = framework.NewStatus(framework.Unschedulable)
	}
	return len(kept) > 0
}

// weighAgain lets Second add to the totals.
func (c *cycle) weighAgain() bool {
	if c.Second == nil || len(c.feasible) < 2 {
		return true
	}
	more := c.Second.Weigh(c.ctx, c.Pod, c.feasible)
	for i, n := range c.feasible {
		c.Boards.totals[i] += more[n.Node().Name]
	}
	return true
}
