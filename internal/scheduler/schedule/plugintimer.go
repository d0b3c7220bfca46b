package schedule

import "k8s.io/kube-scheduler/framework"

// PluginTimer times a plugin at an extension point. What it gives is called when the plugin has
// answered, and may be called from several goroutines.
type PluginTimer func(plugin, point string) (done func(*framework.Status))

func ignoreStatus(*framework.Status) {}

// start starts the timer, if there is one.
func (c PluginTimer) start(plugin framework.Plugin, point string) func(*framework.Status) {
	if c == nil {
		return ignoreStatus
	}
	return c(plugin.Name(), point)
}
