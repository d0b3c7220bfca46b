package schedule

import (
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// scheduleFromCache schedules from the cache; false when this Pod must take the plain path, which
// then starts from the beginning.
func (c *cycle) scheduleFromCache() bool {
	m := c.Cache
	if c.Pod.Status.NominatedNodeName != "" || c.NominatedPodsForNode != nil && c.NominatedNodes == nil ||
		!m.sync(&c.Input) || c.hasNamedNodes() {
		m.counts.Bypassed++
		return false
	}
	if c.tryScheduleFromCache() {
		return true
	}
	m.counts.Bypassed++
	return false
}

// tryScheduleFromCache schedules the Pod with the cached results of its shape: by groups of nodes
// where all plugins can be asked that way, else node by node. False: nothing of it can be used, and
// the cycle is as before.
func (c *cycle) tryScheduleFromCache() bool {
	shape := c.Cache.podShapeOf(c.ctx, &c.Input)
	if shape.uncacheable {
		return false
	}
	c.aggregates = c.Cache.aggregates[:0]
	activePlugins, ok := c.runPreFilterOfNodePlugins(shape, c.pluginsToRun(shape))
	if !ok {
		return false
	}
	if !c.refreshPodShape(shape) {
		return false
	}
	nominations := c.hasNominatedPods()
	if nominations {
		c.Cache.nominated.Sync(&c.Input)
	}
	by := nodeGroupsKey{shape: shape}
	if nominations && len(activePlugins) == 0 && c.Nominations != nil {
		by.nominatedScope, nominations = nominatedScope{true, pod.Priority(c.Pod)}, false
	}
	if !nominations && c.Sample.NumFeasibleNodesToFind(c.Snapshot.Len()) >= c.Snapshot.Len() && c.scheduleByGroup(by,
		activePlugins) {
		return true
	}
	return c.scheduleByNode(shape, activePlugins)
}

func (c *cycle) refreshPodShape(shape *podShape) bool {
	defer c.TimePoint("Filter")()
	shape.refresh(c.ctx, &c.Input)
	return !shape.uncacheable
}

// pluginsToRun are the plugins that neither share results nor skip this Pod.
func (c *cycle) pluginsToRun(shape *podShape) []*nodePlugin {
	out := c.Cache.activePlugins[:0]
	for _, o := range shape.nodePlugins {
		if o.skipper == nil || !o.skipper.Skips(c.Pod, c.Snapshot) {
			out = append(out, o)
		}
	}
	c.Cache.activePlugins = out
	return out
}

// runPreFilterOfNodePlugins recalls what the plugins that share results noted and asks the others
// about the Pod; those that still have to run are left. False when one refuses the Pod or narrows
// the nodes, which the plain path says in full.
func (c *cycle) runPreFilterOfNodePlugins(shape *podShape, activePlugins []*nodePlugin) ([]*nodePlugin, bool) {
	defer c.TimePoint("PreFilter")()
	shape.restoreState(c.State)
	left, skipped := activePlugins[:0], uint64(0)
	for _, o := range activePlugins {
		if o.preFilter == nil {
			left = append(left, o)
			continue
		}
		result, s := c.runPreFilterPlugin(o)
		switch {
		case s.IsSkip():
			if o.scores && !o.followsPreFilter {
				left = append(left, o)
			}
			skipped |= o.bit
			continue
		case !s.IsSuccess() || !result.AllNodes():
			return nil, false
		}
		left = append(left, o)
	}
	if len(left) == 0 {
		c.State.SetSkipScorePlugins(shape.skipSet(skipKey{scoring: true}))
	}
	c.State.SetSkipFilterPlugins(shape.skipSet(skipKey{active: pluginBits(left), skipped: skipped & pluginBits(left)}))
	return left, true
}

// runPreFilterPlugin asks a plugin about the Pod, from its sums where it keeps any.
func (c *cycle) runPreFilterPlugin(o *nodePlugin) (_ *framework.PreFilterResult, s *framework.Status) {
	done := startTimer(c.PluginTimer, o, "PreFilter")
	defer func() { done(s) }()
	if o.aggregating != nil {
		if k := c.Cache.aggregateOf(&c.Input, o.aggregating); k != nil {
			s = k.PreFilter(c.State, c.Pod)
			k.evaluator = k.Evaluator()
			c.aggregates = append(c.aggregates, k)
			c.Cache.aggregates = c.aggregates
			return nil, s
		}
	}
	return o.preFilter.PreFilter(c.ctx, c.State, c.Pod, c.Cache.Table.Nodes)
}

// aggregateOf finds the sums of a plugin for this cycle; nil when it keeps none.
func (c *cycle) aggregateOf(plugin string) *cachedAggregate {
	for _, k := range c.aggregates {
		if k.plugin == plugin {
			return k
		}
	}
	return nil
}

// evaluatorOf is the column form of an aggregating plugin; nil when it keeps none.
func (c *cycle) evaluatorOf(plugin string) *columns.Evaluator {
	if k := c.aggregateOf(plugin); k != nil {
		return k.evaluator
	}
	return nil
}

func (c *podShape) nodeName(row int32) string { return c.cache.Table.Nodes[row].Node().Name }

// explanation is a refusal put into words, and the node it is about.
type explanation struct {
	node          framework.NodeInfo
	refusalNumber uint16
	journal.NodeRefusal
}

// explainRefusal puts a refusal of a row into words. What was said of a node that has not changed
// since is said again.
func (c *podShape) explainRefusal(r *Result, row int32, no uint16) journal.NodeRefusal {
	node := c.cache.Table.Nodes[row]
	e, known := c.explanations[row]
	if !known || e.node != node || e.refusalNumber != no {
		plugin, _ := c.set.Filter[max(c.refusedBy[no], 0)].(Explainer)
		e = explanation{node, no, r.explainRefusal(plugin, refusal{node, c.statuses[no]})}
		if c.explanations == nil {
			c.explanations = map[int32]explanation{}
		}
		c.explanations[row] = e
	}
	return e.NodeRefusal
}
