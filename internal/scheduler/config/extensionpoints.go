package config

import (
	"slices"

	config "k8s.io/kube-scheduler/config/v1"
)

// ExtensionPoint is an extension point of a profile's plugins.
type ExtensionPoint struct {
	Name  string // as in metrics and logs
	Field string // as in the configuration
	Of    func(*config.Plugins) *config.PluginSet
}

// ExtensionPoints are the extension points in the order they run.
var ExtensionPoints = []ExtensionPoint{
	{"PreEnqueue", "preEnqueue", func(p *config.Plugins) *config.PluginSet { return &p.PreEnqueue }},
	{"QueueSort", "queueSort", func(p *config.Plugins) *config.PluginSet { return &p.QueueSort }},
	{"PreFilter", "preFilter", func(p *config.Plugins) *config.PluginSet { return &p.PreFilter }},
	{"Filter", "filter", func(p *config.Plugins) *config.PluginSet { return &p.Filter }},
	{"PostFilter", "postFilter", func(p *config.Plugins) *config.PluginSet { return &p.PostFilter }},
	{"PreScore", "preScore", func(p *config.Plugins) *config.PluginSet { return &p.PreScore }},
	{"Score", "score", func(p *config.Plugins) *config.PluginSet { return &p.Score }},
	{"Reserve", "reserve", func(p *config.Plugins) *config.PluginSet { return &p.Reserve }},
	{"Permit", "permit", func(p *config.Plugins) *config.PluginSet { return &p.Permit }},
	{"PreBind", "preBind", func(p *config.Plugins) *config.PluginSet { return &p.PreBind }},
	{"Bind", "bind", func(p *config.Plugins) *config.PluginSet { return &p.Bind }},
	{"PostBind", "postBind", func(p *config.Plugins) *config.PluginSet { return &p.PostBind }},
}

// EnabledPlugin is a plugin at a point, with its weight there.
type EnabledPlugin struct {
	Name     string
	Weight   int64
	Explicit bool // enabled at this very point, not through multiPoint
}

// EnabledPlugins lists the plugins of a completed profile at one point, in order; has tells whether
// a plugin implements the point. First come plugins enabled at the point that multiPoint enables
// too, then those of multiPoint alone, then those of the point alone (upstream's order). A queue is
// sorted by one plugin: one named at the point takes the place of multiPoint's.
func EnabledPlugins(p *config.Plugins, at ExtensionPoint, has func(plugin string) bool) []EnabledPlugin {
	own := at.Of(p)
	isOwn := func(name string) bool {
		return slices.ContainsFunc(own.Enabled, func(o config.Plugin) bool { return o.Name == name })
	}
	isMulti := func(name string) bool {
		return slices.ContainsFunc(p.MultiPoint.Enabled, func(o config.Plugin) bool { return o.Name == name })
	}
	var first, middle, last []EnabledPlugin
	for _, o := range own.Enabled {
		s := EnabledPlugin{Name: o.Name, Weight: weight(o), Explicit: true}
		if isMulti(o.Name) {
			first = append(first, s)
		} else {
			last = append(last, s)
		}
	}
	for _, m := range p.MultiPoint.Enabled {
		if isOwn(m.Name) || disables(*own, m.Name) || !has(m.Name) || at.Name == "QueueSort" && len(own.Enabled) > 0 {
			continue
		}
		middle = append(middle, EnabledPlugin{Name: m.Name, Weight: weight(m)})
	}
	return slices.Concat(first, middle, last)
}

func weight(p config.Plugin) int64 {
	if p.Weight == nil || *p.Weight == 0 {
		return 1
	}
	return int64(*p.Weight)
}
