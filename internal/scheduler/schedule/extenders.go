package schedule

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// Extenders filter and score nodes after the plugins. Refusals name a plugin.
type Extenders interface {
	Filter(ctx context.Context, p *v1.Pod,
		feasible []framework.NodeInfo) (cached []framework.NodeInfo, refused map[string]*framework.Status, err error)
	// added to the nodes' totals
	Prioritize(ctx context.Context, p *v1.Pod, feasible []framework.NodeInfo) map[string]int64
}

// findNodesThatPassExtenders lets Extenders take nodes away; false ends the cycle.
func (c *cycle) findNodesThatPassExtenders() bool {
	if c.Extenders == nil {
		return true
	}
	defer c.TimePoint("Extender")()
	cached, refused, err := c.Extenders.Filter(c.ctx, c.Pod, c.feasible)
	if err != nil {
		c.result.Status = framework.AsStatus(fmt.Errorf("extender: %w", err))
		return false
	}
	for _, n := range c.feasible {
		if s := refused[n.Node().Name]; s != nil {
			c.result.addRefusal(n, s)
		}
	}
	if c.feasible = cached; len(cached) == 0 {
		c.result.Status = framework.NewStatus(framework.Unschedulable)
	}
	return len(cached) > 0
}

// prioritizeWithExtenders lets Extenders add to the totals.
func (c *cycle) prioritizeWithExtenders() bool {
	if c.Extenders == nil || len(c.feasible) < 2 {
		return true
	}
	more := c.Extenders.Prioritize(c.ctx, c.Pod, c.feasible)
	for i, n := range c.feasible {
		c.Buffers.totals[i] += more[n.Node().Name]
	}
	return true
}
