// Package whatif finds remedies that make a Pod fit: small changes of the Pod, of nodes or of other
// Pods, each tried on an edited copy of the cluster.
//
// A change is only returned if the real plugins chose a node for the changed Pod in the changed
// cluster. In: a Pod, a snapshot, the plugins of its profile, its owner. Out: Remedies, the
// smallest first, each with its commands. To add a change: a function from a node's refusal to
// changes, in the file of its kind, and a row in repairsByCode.
package whatif
