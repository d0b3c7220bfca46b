// Package pleg is the Pod lifecycle event generator: it lists the Pods of the container runtime,
// and says which have changed.
//
// It follows the runtime's event stream, lists everything anew after each reconnect, and lists
// slowly besides (the audit), counting what the events had missed. A runtime without events is
// listed every second. GetPodStatus reads one Pod's state and remembers what cannot change any
// more.
//
// In: CRI events and lists; termination message files and log tails of ended containers. Out:
// podplan.Observed values and calls of Changed with a Pod's uid.
//
// To add something to what is seen: a field in podplan's Container or Sandbox, filled in
// convert.go.
package pleg
