// Package whatif finds what would make a Pod fit: small changes of the Pod, of nodes or of other
// Pods, each tried on an edited copy of the cluster.
//
// A change is only told after the real plugins, asked about
// the changed Pod in the changed cluster, chose a node. In: a Pod, a snapshot, the judges of its
// profile, what owns the Pod. Out: Remedies, the smallest first, each with the commands that do it.
// To add a change: a function from a node's refusal to changes, in the file of its kind, and a row
// in repairs.
package whatif
