package glue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/extend"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// Profile is one scheduler name's plugins, made and seated.
type Profile struct {
	Name    string
	Percent *int32 // of nodes to score; nil: as the configuration says for all profiles
	Judges  *place.Judges
	Sort    framework.QueueSortPlugin
	Hints   []queue.Hint
	Handle  *Handle

	preEnqueue []framework.PreEnqueuePlugin
	postFilter []framework.PostFilterPlugin
	reserve    []framework.ReservePlugin
	permit     []framework.PermitPlugin
	preBind    []framework.PreBindPlugin
	bind       []framework.BindPlugin
	postBind   []framework.PostBindPlugin
	order      []framework.Plugin // all plugins, in the order they were made

	outside
}

// outside is what is known of plugins that are not built in.
type outside struct {
	Limit   time.Duration // a foreign plugin that takes longer is given up; 0: none is
	foreign map[string]bool
	guards  []*guard
}

// row seats a plugin at one extension point; false when the plugin does not implement it.
type row struct {
	has  func(framework.Plugin) bool
	seat func(*Profile, framework.Plugin, int64)
}

// rows has one row per extension point.
var rows = map[string]row{
	"PreEnqueue": at(func(p *Profile, pl framework.PreEnqueuePlugin, _ int64) { p.preEnqueue = append(p.preEnqueue, pl) }),
	"QueueSort":  at(func(p *Profile, pl framework.QueueSortPlugin, _ int64) { p.Sort = pl }),
	"PreFilter": at(func(p *Profile, pl framework.PreFilterPlugin, _ int64) {
		p.Judges.PreFilter = append(p.Judges.PreFilter, pl)
	}),
	"Filter":     at(func(p *Profile, pl framework.FilterPlugin, _ int64) { p.Judges.Filter = append(p.Judges.Filter, pl) }),
	"PostFilter": at(func(p *Profile, pl framework.PostFilterPlugin, _ int64) { p.postFilter = append(p.postFilter, pl) }),
	"PreScore": at(func(p *Profile, pl framework.PreScorePlugin, _ int64) {
		p.Judges.PreScore = append(p.Judges.PreScore, pl)
	}),
	"Score": at(func(p *Profile, pl framework.ScorePlugin, w int64) {
		p.Judges.Score = append(p.Judges.Score, place.Scorer{ScorePlugin: pl, Weight: w})
	}),
	"Reserve":  at(func(p *Profile, pl framework.ReservePlugin, _ int64) { p.reserve = append(p.reserve, pl) }),
	"Permit":   at(func(p *Profile, pl framework.PermitPlugin, _ int64) { p.permit = append(p.permit, pl) }),
	"PreBind":  at(func(p *Profile, pl framework.PreBindPlugin, _ int64) { p.preBind = append(p.preBind, pl) }),
	"Bind":     at(func(p *Profile, pl framework.BindPlugin, _ int64) { p.bind = append(p.bind, pl) }),
	"PostBind": at(func(p *Profile, pl framework.PostBindPlugin, _ int64) { p.postBind = append(p.postBind, pl) }),
}

func at[P framework.Plugin](seat func(*Profile, P, int64)) row {
	return row{
		has: func(pl framework.Plugin) bool {
			_, ok := pl.(P)
			return ok
		},
		seat: func(p *Profile, pl framework.Plugin, weight int64) { seat(p, pl.(P), weight) },
	}
}

// NewProfile makes a profile's plugins with the factories and seats them. The error names plugin and point.
func NewProfile(ctx context.Context, cfg *schedulerconfig.KubeSchedulerProfile, factories map[string]plugins.Factory, deps Deps) (*Profile, error) {
	p := &Profile{Name: *cfg.SchedulerName, Percent: cfg.PercentageOfNodesToScore}
	p.Judges = &place.Judges{Profile: p.Name}
	p.Handle = &Handle{PodNominator: deps.Nominator, PodActivator: deps.Activator, deps: deps, profile: p}
	p.Limit, p.foreign = deps.Limit, map[string]bool{}
	made := map[string]framework.Plugin{}
	for _, name := range needed(cfg.Plugins) {
		factory := factories[name]
		if factory == nil {
			return nil, fmt.Errorf("profile %q: plugin %q is not compiled in", p.Name, name)
		}
		pl, err := factory(ctx, argsOf(cfg, name), p.Handle)
		if err != nil {
			return nil, fmt.Errorf("profile %q: initializing plugin %q: %w", p.Name, name, err)
		}
		made[name] = pl
		if !slices.ContainsFunc(plugins.Known(), func(r plugins.Row) bool { return r.Name == name }) {
			p.foreign[name] = true
		}
		p.order = append(p.order, pl)
	}
	for _, point := range config.Points {
		r := rows[point.Name]
		has := func(name string) bool { return r.has(made[name]) }
		for _, s := range config.Seats(cfg.Plugins, point, has) {
			if !has(s.Name) {
				return nil, fmt.Errorf("profile %q: plugin %q does not extend %s", p.Name, s.Name, point.Name)
			}
			if point.Name == "QueueSort" && p.Sort != nil {
				return nil, fmt.Errorf("profile %q: only one queue sort plugin is possible, but both %q and %q are enabled", p.Name, p.Sort.Name(), s.Name)
			}
			r.seat(p, p.guarded(point.Name, made[s.Name]), s.Weight)
		}
	}
	switch {
	case p.Sort == nil:
		return nil, fmt.Errorf("only one queue sort plugin required for profile with scheduler name %q, but got 0", p.Name)
	case len(p.bind) == 0:
		return nil, fmt.Errorf("at least one bind plugin is needed for profile with scheduler name %q", p.Name)
	}
	err := p.collectHints(ctx)
	p.keepers()
	return p, err
}

// needed names every plugin enabled anywhere, once.
func needed(p *schedulerconfig.Plugins) []string {
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
	for _, point := range config.Points {
		add(point.Of(p))
	}
	return out
}

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

// everything wakes Pods that a plugin refused which does not say what would help.
var everything = framework.ClusterEvent{Resource: framework.WildCard, ActionType: framework.All}

func (p *Profile) collectHints(ctx context.Context) error {
	if len(p.Handle.deps.Extenders) > 0 { // nobody knows what changes an extender's mind
		p.Hints = append(p.Hints, queue.Hint{Plugin: extend.Plugin, Event: everything})
	}
	for _, pl := range p.order {
		ext, ok := pl.(framework.EnqueueExtensions)
		if !ok && !rejects(pl) {
			continue
		}
		if !ok {
			p.Hints = append(p.Hints, queue.Hint{Plugin: pl.Name(), Event: everything})
			continue
		}
		all, err := ext.EventsToRegister(ctx)
		if err != nil {
			return fmt.Errorf("profile %q: events of plugin %q: %w", p.Name, pl.Name(), err)
		}
		for _, e := range all {
			p.Hints = append(p.Hints, queue.Hint{Plugin: pl.Name(), Event: e.Event, Fn: p.hint(pl.Name(), e.QueueingHintFn)})
		}
	}
	return nil
}

// Keeper is a plugin that keeps Pods out of the queue and knows which of them an event that it registered may concern.
type Keeper interface {
	Concerned(before, after any) []types.UID
}

// keepers lets such plugins say so.
func (p *Profile) keepers() {
	for i := range p.Hints {
		for _, pl := range p.order {
			if k, ok := pl.(Keeper); ok && pl.Name() == p.Hints[i].Plugin {
				p.Hints[i].Whom = k.Concerned
			}
		}
	}
}

// rejects tells whether a plugin can turn a Pod away at a point whose rejections wait for events.
func rejects(pl framework.Plugin) bool {
	for _, point := range []string{"PreEnqueue", "PreFilter", "Filter", "Reserve", "Permit"} {
		if rows[point].has(pl) {
			return true
		}
	}
	return false
}

// judging lists the plugins that filter or score.
func (p *Profile) judging() []framework.Plugin {
	var out []framework.Plugin
	for _, pl := range p.order {
		for _, point := range []string{"PreFilter", "Filter", "PreScore", "Score"} {
			if rows[point].has(pl) {
				out = append(out, pl)
				break
			}
		}
	}
	return out
}
