package bind

import (
	"maps"

	"github.com/gantry-project/gantry/internal/scheduler/bind/volumebinder"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
)

// Factories gives every plugin factory there is: built-in judges, the plugins that act, and extra
// ones, which must not take a built-in name.
func Factories(extra map[string]plugins.Factory, q APIWriter) map[string]plugins.Factory {
	all := map[string]plugins.Factory{coscheduling.Name: newCoscheduling}
	maps.Copy(all, extra) // an own Coscheduling takes the place of this one
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
