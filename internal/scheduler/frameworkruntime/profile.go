package frameworkruntime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/extender"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// Profile is the plugins of one scheduler name at their extension points. It does not change once
// it is made.
type Profile struct {
	Name                     string
	PercentageOfNodesToScore *int32 // of nodes to score; nil: as the configuration says for all profiles
	Plugins                  *schedule.PluginSet
	QueueSort                framework.QueueSortPlugin
	QueueingHints            []queue.QueueingHint
	Handle                   *Handle

	preEnqueue     []framework.PreEnqueuePlugin
	postFilter     []framework.PostFilterPlugin
	reserve        []framework.ReservePlugin
	permit         []framework.PermitPlugin
	preBind        []framework.PreBindPlugin
	bind           []framework.BindPlugin
	postBind       []framework.PostBindPlugin
	unreserveOrder []framework.Plugin // all plugins, in the order they were made

	outOfTree
}

// outOfTree are the plugins that are not built in.
type outOfTree struct {
	Timeout          time.Duration // that a plugin that is not built in may take; 0: for ever
	outOfTreePlugins map[string]bool
	guards           []*pluginGuard
}

// extensionPoint adds plugins to a profile's list of one extension point.
type extensionPoint struct {
	implementedBy func(framework.Plugin) bool
	add           func(*Profile, framework.Plugin, int64)
}

// extensionPoints has one row per extension point.
var extensionPoints = map[string]extensionPoint{
	"PreEnqueue": extensionPointOf(func(p *Profile, pl framework.PreEnqueuePlugin,
		_ int64) {
		p.preEnqueue = append(p.preEnqueue, pl)
	}),
	"QueueSort": extensionPointOf(func(p *Profile, pl framework.QueueSortPlugin, _ int64) { p.QueueSort = pl }),
	"PreFilter": extensionPointOf(func(p *Profile, pl framework.PreFilterPlugin, _ int64) {
		p.Plugins.PreFilter = append(p.Plugins.PreFilter, pl)
	}),
	"Filter": extensionPointOf(func(p *Profile, pl framework.FilterPlugin,
		_ int64) {
		p.Plugins.Filter = append(p.Plugins.Filter, pl)
	}),
	"PostFilter": extensionPointOf(func(p *Profile, pl framework.PostFilterPlugin,
		_ int64) {
		p.postFilter = append(p.postFilter, pl)
	}),
	"PreScore": extensionPointOf(func(p *Profile, pl framework.PreScorePlugin, _ int64) {
		p.Plugins.PreScore = append(p.Plugins.PreScore, pl)
	}),
	"Score": extensionPointOf(func(p *Profile, pl framework.ScorePlugin, w int64) {
		p.Plugins.Score = append(p.Plugins.Score, schedule.WeightedScorePlugin{ScorePlugin: pl, Weight: w})
	}),
	"Reserve": extensionPointOf(func(p *Profile, pl framework.ReservePlugin,
		_ int64) {
		p.reserve = append(p.reserve, pl)
	}),
	"Permit": extensionPointOf(func(p *Profile, pl framework.PermitPlugin,
		_ int64) {
		p.permit = append(p.permit, pl)
	}),
	"PreBind": extensionPointOf(func(p *Profile, pl framework.PreBindPlugin,
		_ int64) {
		p.preBind = append(p.preBind, pl)
	}),
	"Bind": extensionPointOf(func(p *Profile, pl framework.BindPlugin, _ int64) { p.bind = append(p.bind, pl) }),
	"PostBind": extensionPointOf(func(p *Profile, pl framework.PostBindPlugin,
		_ int64) {
		p.postBind = append(p.postBind, pl)
	}),
}

// extensionPointOf is the row of an extension point: which plugins implement it, and how a profile
// takes one.
func extensionPointOf[P framework.Plugin](add func(*Profile, P, int64)) extensionPoint {
	return extensionPoint{
		implementedBy: func(pl framework.Plugin) bool {
			_, ok := pl.(P)
			return ok
		},
		add: func(p *Profile, pl framework.Plugin, weight int64) { add(p, pl.(P), weight) },
	}
}

// NewProfile makes a profile's plugins with the factories and adds them to their extension points.
// The error names plugin and extension point.
func NewProfile(ctx context.Context, cfg *schedulerconfig.KubeSchedulerProfile, factories map[string]plugins.Factory,
	deps Deps) (*Profile, error) {
	p := &Profile{Name: *cfg.SchedulerName, PercentageOfNodesToScore: cfg.PercentageOfNodesToScore}
	p.Plugins = &schedule.PluginSet{Profile: p.Name}
	p.Handle = &Handle{PodNominator: deps.Nominator, PodActivator: deps.Activator, deps: deps, profile: p}
	p.Timeout, p.outOfTreePlugins = deps.PluginTimeout, map[string]bool{}
	made := map[string]framework.Plugin{}
	for _, name := range enabledPlugins(cfg.Plugins) {
		factory := factories[name]
		if factory == nil {
			return nil, fmt.Errorf("profile %q: plugin %q is not compiled in", p.Name, name)
		}
		pl, err := factory(ctx, argsOf(cfg, name), p.Handle)
		if err != nil {
			return nil, fmt.Errorf("profile %q: initializing plugin %q: %w", p.Name, name, err)
		}
		made[name] = pl
		if !slices.ContainsFunc(plugins.Registry(), func(r plugins.Registration) bool { return r.Name == name }) {
			p.outOfTreePlugins[name] = true
		}
		p.unreserveOrder = append(p.unreserveOrder, pl)
	}
	for _, point := range config.ExtensionPoints {
		r := extensionPoints[point.Name]
		has := func(name string) bool { return r.implementedBy(made[name]) }
		for _, s := range config.EnabledPlugins(cfg.Plugins, point, has) {
			if !has(s.Name) {
				return nil, fmt.Errorf("profile %q: plugin %q does not extend %s", p.Name, s.Name, point.Name)
			}
			if point.Name == "QueueSort" && p.QueueSort != nil {
				return nil, fmt.Errorf("profile %q: only one queue sort plugin is possible, but both %q and %q are "+
					"enabled", p.Name, p.QueueSort.Name(), s.Name)
			}
			r.add(p, p.guardPlugin(point.Name, made[s.Name]), s.Weight)
		}
	}
	switch {
	case p.QueueSort == nil:
		return nil, fmt.Errorf("only one queue sort plugin required for profile with scheduler name %q, but got 0",
			p.Name)
	case len(p.bind) == 0:
		return nil, fmt.Errorf("at least one bind plugin is needed for profile with scheduler name %q", p.Name)
	}
	err := p.buildQueueingHints(ctx)
	p.setConcernedPods()
	return p, err
}

// enabledPlugins lists every plugin enabled at any extension point, once.
func enabledPlugins(p *schedulerconfig.Plugins) []string {
	var out []string
	seen := map[string]bool{}
	add := func(s *schedulerconfig.PluginSet) {
		for _, e := range s.Enabled {
			if !seen[e.Name] {
				seen[e.Name] = true
				out = append(out, e.Name)
			}
		}
	}
	add(&p.MultiPoint)
	for _, point := range config.ExtensionPoints {
		add(point.Of(p))
	}
	return out
}

// argsOf are the plugin's arguments as the factory gets them: decoded, or as JSON for an
// out-of-tree plugin; nil if the configuration has none.
func argsOf(cfg *schedulerconfig.KubeSchedulerProfile, name string) runtime.Object {
	for _, c := range cfg.PluginConfig {
		if c.Name != name {
			continue
		}
		if c.Args.Object != nil {
			return c.Args.Object
		}
		return &runtime.Unknown{Raw: c.Args.Raw, ContentType: runtime.ContentTypeJSON}
	}
	return nil
}

// allEvents are the events that may help Pods refused by a plugin that registers for none.
var allEvents = framework.ClusterEvent{Resource: framework.WildCard, ActionType: framework.All}

// buildQueueingHints collects which events may help Pods that a plugin refused. A plugin that can
// refuse and registers for no event is asked after each.
func (p *Profile) buildQueueingHints(ctx context.Context) error {
	if len(p.Handle.deps.Extenders) > 0 { // any event may change what an extender answers
		p.QueueingHints = append(p.QueueingHints, queue.QueueingHint{Plugin: extender.PluginName, Event: allEvents})
	}
	for _, pl := range p.unreserveOrder {
		ext, ok := pl.(framework.EnqueueExtensions)
		if !ok && !mayReject(pl) {
			continue
		}
		if !ok {
			p.QueueingHints = append(p.QueueingHints, queue.QueueingHint{Plugin: pl.Name(), Event: allEvents})
			continue
		}
		all, err := ext.EventsToRegister(ctx)
		if err != nil {
			return fmt.Errorf("profile %q: events of plugin %q: %w", p.Name, pl.Name(), err)
		}
		for _, e := range all {
			p.QueueingHints = append(p.QueueingHints, queue.QueueingHint{Plugin: pl.Name(), Event: e.Event,
				Fn: p.guardHint(pl.Name(), e.QueueingHintFn)})
		}
	}
	return nil
}

// PreEnqueueWaker is a PreEnqueue plugin that knows which of the Pods it gates an event that it
// registered for may concern.
type PreEnqueueWaker interface {
	ConcernedPods(before, after any) []types.UID
}

// setConcernedPods gives the hints of such a plugin their ConcernedPods.
func (p *Profile) setConcernedPods() {
	for i := range p.QueueingHints {
		for _, pl := range p.unreserveOrder {
			if k, ok := pl.(PreEnqueueWaker); ok && pl.Name() == p.QueueingHints[i].Plugin {
				p.QueueingHints[i].ConcernedPods = k.ConcernedPods
			}
		}
	}
}

// mayReject tells whether a plugin is at an extension point where Pods that it rejects wait for
// events.
func mayReject(pl framework.Plugin) bool {
	for _, point := range []string{"PreEnqueue", "PreFilter", "Filter", "Reserve", "Permit"} {
		if extensionPoints[point].implementedBy(pl) {
			return true
		}
	}
	return false
}

// filterAndScorePlugins lists the plugins that filter or score.
func (p *Profile) filterAndScorePlugins() []framework.Plugin {
	var out []framework.Plugin
	for _, pl := range p.unreserveOrder {
		for _, point := range []string{"PreFilter", "Filter", "PreScore", "Score"} {
			if extensionPoints[point].implementedBy(pl) {
				out = append(out, pl)
				break
			}
		}
	}
	return out
}

// PluginNames lists the plugins at each point, for logs.
func (p *Profile) PluginNames() []string {
	seen := map[string]bool{}
	for _, pl := range p.unreserveOrder {
		seen[pl.Name()] = true
	}
	return sets.List(sets.KeySet(maps.Clone(seen)))
}
