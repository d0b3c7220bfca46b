package kubelet

import (
	"context"

	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// addPluginHandlers tells the plugin manager who takes in which type of plugin: one AddHandler for
// each, before it runs.
func (k *Kubelet) addPluginHandlers() {
	m := k.opts.Dependencies.PluginManager
	if !k.opts.StaticPods.Standalone {
		m.AddHandler(registerapi.CSIPlugin, k.csi.plugin.Drivers)
	}
	k.devices.AddHandlers(m)
}

// PluginSockets are the sockets of plugins, and whether they are registered.
func (k *Kubelet) PluginSockets() map[string]bool {
	out := map[string]bool{}
	if m := k.opts.Dependencies.PluginManager; m != nil {
		plugins, _ := m.Plugins()
		for _, p := range plugins {
			out[p.Socket] = p.Registered
		}
	}
	return out
}

// runPluginManager registers the node's plugins until ctx ends. A node whose directory of sockets
// cannot be read works without plugins.
func (k *Kubelet) runPluginManager(ctx context.Context) {
	m := k.opts.Dependencies.PluginManager
	if m == nil {
		return
	}
	k.addPluginHandlers()
	if err := m.Run(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "No plugins are registered with this kubelet until it is started anew")
	}
}
