// Package prioritysort orders the queue: higher priority first, then who came first.
//
// Pure.
package prioritysort

import "k8s.io/kube-scheduler/framework"

// Name of the plugin.
const Name = "PrioritySort"

// Plugin is the order.
type Plugin struct{}

// New makes it.
func New() *Plugin { return &Plugin{} }

var _ framework.QueueSortPlugin = (*Plugin)(nil)

// Name is Name.
func (*Plugin) Name() string { return Name }

// Less tells whether a goes before b.
func (*Plugin) Less(a, b framework.QueuedEntityInfo) bool {
	if p, q := a.GetPriority(), b.GetPriority(); p != q {
		return p > q
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}
