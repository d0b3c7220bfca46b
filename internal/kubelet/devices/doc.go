// Package devices joins what gives devices to Pods: the manager of device plugins, the manager of
// resource claims and the PodResources API.
//
// In: Pods as they come and go, plugins and drivers that register. Out: what a Pod is given or why
// it is refused, what its containers get, what its status and the node's say of it.
package devices
