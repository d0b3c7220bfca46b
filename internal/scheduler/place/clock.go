package place

import "k8s.io/kube-scheduler/framework"

// Clock times a plugin at an extension point. What it gives is called when the plugin has answered, and may be called from several goroutines.
type Clock func(plugin, point string) (answered func(*framework.Status))

func unheard(*framework.Status) {}

// of starts the stop watch, if there is one.
func (c Clock) of(plugin framework.Plugin, point string) func(*framework.Status) {
	if c == nil {
		return unheard
	}
	return c(plugin.Name(), point)
}
