// Package plugin holds the DRA drivers that have registered with the kubelet: how to reach them,
// and whether they can be reached.
//
// In: registrations from the plugin manager. Out: clients by driver (Get); ResourceSlices of this
// node are deleted while their driver is away, and all of them at the kubelet's start, so that the
// scheduler sends no Pods to devices that nobody prepares.
package plugin
