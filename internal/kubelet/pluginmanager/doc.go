// Package pluginmanager finds plugins of the node (CSI drivers, device plugins, DRA drivers) by the
// sockets they make below plugins_registry, and registers them with the handler of their type.
//
// In: a directory, followed by inotify; handlers by type. Out: calls of the handlers, the answer to
// the plugin (NotifyRegistrationStatus), Plugins for those who ask. A socket that does not answer,
// or that a handler refuses, is tried again after half a second, then after twice as long each
// time; at once when it is made anew. Each socket is served by itself: one that hangs keeps no
// other.
//
// To add a type: a Handler, and an AddHandler with the type's name (registerapi.CSIPlugin, …)
// before Run, in kubelet/run.go.
package pluginmanager
