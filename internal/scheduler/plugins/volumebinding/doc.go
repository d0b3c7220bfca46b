// Package volumebinding filters nodes that a Pod's PersistentVolumes cannot be used on, and binds
// claims to volumes when a node is chosen.
//
// A bound claim holds the Pod to the nodes of its volume. A claim that waits for its first consumer
// takes the smallest volume that fits and is reachable from the node, or is provisioned for the
// node. Which volume that is follows from claims, volumes and node alone (plan), so it is asked
// again for the node that was chosen.
//
// In: volumelisters.Listers, a Pod, a node. Out: refusals with the claim and where its volume is, a
// PodVolumes for Binder to write (scheduler/bind/volumebinder). Pure.
package volumebinding
