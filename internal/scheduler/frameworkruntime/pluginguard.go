package frameworkruntime

import (
	"context"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/prioritysort"
)

// PluginPanic is a panic that was recovered on another goroutine. It is thrown again on the
// caller's, which can name the plugin.
type PluginPanic struct {
	Value any
	Stack []byte
}

// NewPluginPanic makes a PluginPanic of what recover returned, with the stack of the panic.
func NewPluginPanic(value any) *PluginPanic {
	if p, ok := value.(*PluginPanic); ok {
		return p
	}
	return &PluginPanic{Value: value, Stack: debug.Stack()}
}

var pluginFrame = regexp.MustCompile(`/scheduler/plugins/(\w+)\.`)

// PluginName names the built-in plugin that panicked; empty when the stack shows none.
func (p *PluginPanic) PluginName() string {
	if m := pluginFrame.FindSubmatch(p.Stack); m != nil {
		return string(m[1])
	}
	return ""
}

// recoverStatus turns a panic of a plugin into an error status that names it.
func recoverStatus(plugin string, ask func() *framework.Status) (s *framework.Status) {
	defer func() {
		if v := recover(); v != nil {
			p := NewPluginPanic(v)
			klog.Background().Error(nil, "A plugin panicked", "plugin", plugin, "panic", fmt.Sprint(p.Value),
				"stack", string(p.Stack))
			s = framework.AsStatus(fmt.Errorf("plugin %q panicked: %v", plugin, p.Value)).WithPlugin(plugin)
		}
	}()
	return ask()
}

// callPlugin calls a plugin at an extension point that runs once per Pod. A panic becomes an error
// status that names the plugin. So does a plugin that is not built in and does not return within
// the timeout: its goroutine is left, and what it returns later is dropped.
func callPlugin[T any](p *Profile, plugin string, call func() T) (answer T, failed *framework.Status) {
	if !p.outOfTreePlugins[plugin] || p.Timeout <= 0 {
		failed = recoverStatus(plugin, func() *framework.Status {
			answer = call()
			return nil
		})
		return answer, failed
	}
	type results struct {
		answer T
		failed *framework.Status
	}
	heard := make(chan results, 1)
	go func() {
		var it results
		it.failed = recoverStatus(plugin, func() *framework.Status {
			it.answer = call()
			return nil
		})
		heard <- it
	}()
	t := time.NewTimer(p.Timeout)
	defer t.Stop()
	select {
	case it := <-heard:
		return it.answer, it.failed
	case <-t.C:
		return answer,
			framework.AsStatus(fmt.Errorf("plugin %q has not returned within %v", plugin, p.Timeout)).WithPlugin(plugin)
	}
}

// pluginGuard wraps a plugin that is not built in: it recovers panics and knows whether a call is
// still under way.
type pluginGuard struct {
	name   string
	inCall atomic.Int64
}

func (g *pluginGuard) call(ask func() *framework.Status) *framework.Status {
	g.inCall.Add(1)
	defer g.inCall.Add(-1)
	return recoverStatus(g.name, ask)
}

// HungPlugins lists the plugins that are not built in and have not returned.
func (p *Profile) HungPlugins() []string {
	var out []string
	for _, g := range p.guards {
		if g.inCall.Load() > 0 && !slices.Contains(out, g.name) {
			out = append(out, g.name)
		}
	}
	return out
}

// HasOutOfTreePlugins tells whether the profile has plugins that are not built in.
func (p *Profile) HasOutOfTreePlugins() bool { return len(p.outOfTreePlugins) > 0 }

// validCode turns an unknown status code into an error: it has no name that a metric could count.
func validCode(s *framework.Status) *framework.Status {
	if c := s.Code(); c < framework.Success || c > framework.Pending {
		return framework.AsStatus(fmt.Errorf("it answers with the status code %d, which is none", int(c))).WithPlugin(
			s.Plugin())
	}
	return s
}

// successOrFailure does so with Wait and Skip too, for extension points where they mean nothing.
func successOrFailure(s *framework.Status) *framework.Status {
	if s = validCode(s); s.IsWait() || s.IsSkip() {
		return framework.AsStatus(fmt.Errorf("it answers %v, which means nothing here", s.Code())).WithPlugin(
			s.Plugin())
	}
	return s
}

// guardedQueueSort is a QueueSort plugin that is not built in. Where it panics or does not return
// in time, the order of PrioritySort holds; while a call is under way it is not called again,
// because all Pods wait at each comparison.
type guardedQueueSort struct {
	framework.QueueSortPlugin
	p          *Profile
	unanswered *atomic.Int64
}

// Less implements framework.QueueSortPlugin.
func (g guardedQueueSort) Less(a, b framework.QueuedEntityInfo) bool {
	if g.unanswered.Load() > 0 {
		return prioritysort.New().Less(a, b)
	}
	var over atomic.Bool // set by what comes first: the answer, or the timeout
	less, broken := callPlugin(g.p, g.Name(), func() bool {
		defer func() {
			if !over.CompareAndSwap(false, true) {
				g.unanswered.Add(-1)
			}
		}()
		return g.QueueSortPlugin.Less(a, b)
	})
	if broken == nil {
		return less
	}
	if over.CompareAndSwap(false, true) {
		g.unanswered.Add(1)
		klog.Background().Error(broken.AsError(), "The queue is sorted in the ordinary way until the plugin returns",
			"plugin", g.Name())
	}
	return prioritysort.New().Less(a, b)
}

// guardHint guards a queueing hint of a plugin that is not built in; when it panics or does not
// return in time the Pod is queued, so that none is forgotten.
func (p *Profile) guardHint(plugin string, fn framework.QueueingHintFn) framework.QueueingHintFn {
	if fn == nil || !p.outOfTreePlugins[plugin] {
		return fn
	}
	return func(logger klog.Logger, pod *v1.Pod, before, after any) (framework.QueueingHint, error) {
		type results struct {
			hint framework.QueueingHint
			err  error
		}
		answer, broken := callPlugin(p, plugin, func() results {
			hint, err := fn(logger, pod, before, after)
			return results{hint, err}
		})
		if broken != nil {
			return framework.Queue, broken.AsError()
		}
		return answer.hint, answer.err
	}
}

type guardedPreFilter struct {
	framework.PreFilterPlugin
	*pluginGuard
}

// PreFilter calls the plugin, guarded as pluginGuard says. The result is the plugin's; the status
// is nil, Skip, or a failure that names the plugin: every other code becomes an Error.
func (g guardedPreFilter) PreFilter(ctx context.Context, state framework.CycleState, p *v1.Pod,
	nodes []framework.NodeInfo) (r *framework.PreFilterResult, s *framework.Status) {
	s = g.call(func() (s *framework.Status) {
		r, s = g.PreFilterPlugin.PreFilter(ctx, state, p, nodes)
		return s
	})
	if s.IsSkip() {
		return r, s
	}
	return r, successOrFailure(s)
}

type guardedFilter struct {
	framework.FilterPlugin
	*pluginGuard
}

// Filter calls the plugin for one node. Nil means that the node passes; every other status is a
// failure that names the plugin. Calls run on several goroutines.
func (g guardedFilter) Filter(ctx context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	return successOrFailure(g.call(func() *framework.Status { return g.FilterPlugin.Filter(ctx, state, p, n) }))
}

type guardedPreScore struct {
	framework.PreScorePlugin
	*pluginGuard
}

// PreScore calls the plugin for the feasible nodes; the status is nil, Skip, or a failure that
// names the plugin.
func (g guardedPreScore) PreScore(ctx context.Context, state framework.CycleState, p *v1.Pod,
	nodes []framework.NodeInfo) *framework.Status {
	s := g.call(func() *framework.Status { return g.PreScorePlugin.PreScore(ctx, state, p, nodes) })
	if s.IsSkip() {
		return s
	}
	return successOrFailure(s)
}

type guardedScore struct {
	framework.ScorePlugin
	*pluginGuard
}

// Score calls the plugin for one node. The score is in the plugin's own unit (NormalizeScore brings
// it to 0..100) and counts only beside a nil status. Calls run on several goroutines.
func (g guardedScore) Score(ctx context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) (score int64, s *framework.Status) {
	s = g.call(func() (s *framework.Status) {
		score, s = g.ScorePlugin.Score(ctx, state, p, n)
		return s
	})
	return score, successOrFailure(s)
}

// ScoreExtensions returns the plugin's NormalizeScore, guarded; nil where the plugin has none.
func (g guardedScore) ScoreExtensions() framework.ScoreExtensions {
	if ext := g.ScorePlugin.ScoreExtensions(); ext != nil {
		return guardedNormalize{ext, g.pluginGuard}
	}
	return nil
}

type guardedNormalize struct {
	framework.ScoreExtensions
	*pluginGuard
}

// NormalizeScore calls the plugin, which writes scores of 0..100 into the list in place. A status
// that is not nil names the plugin, and the list is not to be used.
func (g guardedNormalize) NormalizeScore(ctx context.Context, state framework.CycleState, p *v1.Pod,
	scores framework.NodeScoreList) *framework.Status {
	return successOrFailure(
		g.call(func() *framework.Status { return g.ScoreExtensions.NormalizeScore(ctx, state, p, scores) }))
}

// guardPlugin wraps a plugin at PreFilter, Filter, PreScore and Score; built-in plugins stay as
// they are, so that their other interfaces stay visible.
func (p *Profile) guardPlugin(point string, pl framework.Plugin) framework.Plugin {
	if !p.outOfTreePlugins[pl.Name()] {
		return pl
	}
	if point == "QueueSort" {
		return guardedQueueSort{pl.(framework.QueueSortPlugin), p, &atomic.Int64{}}
	}
	g := &pluginGuard{name: pl.Name()}
	p.guards = append(p.guards, g)
	switch point {
	case "PreFilter":
		return guardedPreFilter{pl.(framework.PreFilterPlugin), g}
	case "Filter":
		return guardedFilter{pl.(framework.FilterPlugin), g}
	case "PreScore":
		return guardedPreScore{pl.(framework.PreScorePlugin), g}
	case "Score":
		return guardedScore{pl.(framework.ScorePlugin), g}
	}
	return pl
}
