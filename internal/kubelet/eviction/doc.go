// Package eviction decides node-pressure evictions: which signals are over their thresholds, which
// Pods are evicted, in which order.
//
// Two causes: a Pod takes more local storage than its own limits allow (LocalStorageEviction), or
// the node itself runs out of memory, disk, inodes or process ids (Decide).
// https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
//
// In: figures of the node and of its Pods, thresholds, what the last decision remembered, the time.
// Out: a Decision: thresholds that are met, conditions of the node, what to reclaim first, the Pods
// in the order in which they go, the victim with message and grace period.
//
// To add a signal: its row in signals.go. To add a limit of a Pod's own: a function and its row in
// rules (storage.go). eviction/manager measures and acts.
package eviction
