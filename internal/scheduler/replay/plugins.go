package replay

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// recordedHandle gives plugins what was recorded. It has only the methods that Filter and Score
// use.
type recordedHandle struct {
	framework.Handle
	factory  informers.SharedInformerFactory
	listers  volumelisters.Listers
	selector labels.Selector
	devices  framework.SharedDRAManager // nil: the Pod asked for none
}

var (
	_ plugins.SelectorFinder      = (*recordedHandle)(nil)
	_ volumelisters.ListersHolder = (*recordedHandle)(nil)
	_ plugins.DRAHolder           = (*recordedHandle)(nil)
)

// SharedInformerFactory holds the namespaces; its informers never run.
func (h *recordedHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

// VolumeListers are the recorded ones.
func (h *recordedHandle) VolumeListers() volumelisters.Listers { return h.listers }

// SelectorOf is the recorded one.
func (h *recordedHandle) SelectorOf(*v1.Pod) labels.Selector { return h.selector }

// DeviceAllocation gives the recorded claims, slices and classes, and nobody who would write.
func (h *recordedHandle) DeviceAllocation() (framework.SharedDRAManager, dynamicresources.ClaimWriter) {
	return h.devices, nil
}

func newHandle(d *Decision) (*recordedHandle, error) {
	h := &recordedHandle{factory: informers.NewSharedInformerFactory(nil, 0)}
	var err error
	if h.selector, err = labels.Parse(d.Selector); err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	namespaces := h.factory.Core().V1().Namespaces().Informer().GetIndexer()
	for i, n := range d.Objects.Namespaces {
		if n == nil {
			return nil, fmt.Errorf("objects.namespaces[%d]: a namespace is missing", i)
		}
		if err := namespaces.Add(n); err != nil {
			return nil, fmt.Errorf("objects.namespaces[%d]: %w", i, err)
		}
	}
	o := &d.Objects
	all := slices.Concat(objects(o.Claims), objects(o.Volumes), objects(o.Classes), objects(o.CSINodes),
		objects(o.Drivers), objects(o.Capacities), objects(o.Attachments))
	h.listers = volumelisters.Of(all...)
	if o.Devices != nil {
		h.devices = o.Devices.manager()
	}
	return h, nil
}

// objects leaves out what a damaged file lacks.
func objects[T any, P interface {
	*T
	runtime.Object
}](list []P) []runtime.Object {
	var out []runtime.Object
	for _, o := range list {
		if o != nil {
			out = append(out, o)
		}
	}
	return out
}

// newPlugins makes the plugins of a completed profile that filter and score, and puts them at their
// extension points. absent names those whose data is not recorded.
func newPlugins(p *schedulerconfig.KubeSchedulerProfile,
	h framework.Handle) (j *schedule.PluginSet, absent []string, err error) {
	made := map[string]framework.Plugin{}
	for _, name := range enabledPlugins(p.Plugins) {
		rows := plugins.Registry()
		i := slices.IndexFunc(rows, func(r plugins.Registration) bool { return r.Name == name })
		switch {
		case i < 0:
			return nil, nil, fmt.Errorf("plugin %q is not compiled in", name)
		case name == plugins.DefaultBinder, name == plugins.DefaultPreemption:
			continue // they neither filter nor score
		case rows[i].New == nil:
			absent = append(absent, name)
			continue
		}
		if made[name], err = rows[i].New(context.Background(), argsOf(p, name), h); err != nil {
			return nil, nil, fmt.Errorf("initializing plugin %q: %w", name, err)
		}
	}
	j = &schedule.PluginSet{Profile: *p.SchedulerName}
	for _, point := range config.ExtensionPoints {
		seat, ok := extensionPoints[point.Name]
		if !ok {
			continue
		}
		for _, s := range config.EnabledPlugins(p.Plugins, point,
			func(name string) bool { return seat(&schedule.PluginSet{}, made[name], 1) }) {
			if made[s.Name] != nil && !seat(j, made[s.Name], s.Weight) {
				return nil, nil, fmt.Errorf("plugin %q does not extend %s", s.Name, point.Name)
			}
		}
	}
	return j, absent, nil
}

// extensionPoints puts a plugin at a point; false when it does not implement it.
var extensionPoints = map[string]func(*schedule.PluginSet, framework.Plugin, int64) bool{
	"PreFilter": func(j *schedule.PluginSet, pl framework.Plugin, _ int64) bool {
		p, ok := pl.(framework.PreFilterPlugin)
		j.PreFilter = append(j.PreFilter, p)
		return ok
	},
	"Filter": func(j *schedule.PluginSet, pl framework.Plugin, _ int64) bool {
		p, ok := pl.(framework.FilterPlugin)
		j.Filter = append(j.Filter, p)
		return ok
	},
	"PreScore": func(j *schedule.PluginSet, pl framework.Plugin, _ int64) bool {
		p, ok := pl.(framework.PreScorePlugin)
		j.PreScore = append(j.PreScore, p)
		return ok
	},
	"Score": func(j *schedule.PluginSet, pl framework.Plugin, weight int64) bool {
		p, ok := pl.(framework.ScorePlugin)
		j.Score = append(j.Score, schedule.WeightedScorePlugin{ScorePlugin: p, Weight: weight})
		return ok
	},
}

func enabledPlugins(p *schedulerconfig.Plugins) []string {
	var out []string
	add := func(s *schedulerconfig.PluginSet) {
		for _, e := range s.Enabled {
			if !slices.Contains(out, e.Name) {
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

func argsOf(p *schedulerconfig.KubeSchedulerProfile, plugin string) runtime.Object {
	for _, c := range p.PluginConfig {
		if c.Name == plugin && c.Args.Object != nil {
			return c.Args.Object
		}
	}
	return nil
}
