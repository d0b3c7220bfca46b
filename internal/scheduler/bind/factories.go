package bind

import (
	"maps"

	"github.com/gantry-project/gantry/internal/scheduler/bind/volumebinder"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
)

// Factories gives every plugin factory by name: built-in plugins, those that write to the API
// server (here), and extra ones, which must not take the name of a built-in plugin but
// Coscheduling.
func Factories(extra map[string]plugins.Factory, q APIWriter) map[string]plugins.Factory {
	all := map[string]plugins.Factory{coscheduling.Name: newCoscheduling}
	maps.Copy(all, extra) // an extra Coscheduling replaces this one
	for _, row := range plugins.Registry() {
		if row.New != nil {
			all[row.Name] = row.New
		}
	}
	cache := &volumebinder.SharedBinder{}
	for _, name := range plugins.VolumePlugins {
		all[name] = cache.Factory(all[name])
	}
	all[plugins.DefaultBinder] = newDefaultBinder(q)
	all[plugins.DefaultPreemption] = newPreemption(q)
	return all
}
