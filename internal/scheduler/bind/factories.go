package bind

import (
	"maps"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
)

// Factories gives every plugin factory there is: built-in judges, the plugins that act, and extra ones, which must not take a built-in name.
func Factories(extra map[string]plugins.Factory) map[string]plugins.Factory {
	all := maps.Clone(extra)
	if all == nil {
		all = map[string]plugins.Factory{}
	}
	for _, row := range plugins.All {
		if row.New != nil {
			all[row.Name] = row.New
		}
	}
	all[plugins.DefaultBinder] = newBinder
	all[plugins.DefaultPreemption] = newPreemption
	return all
}
