// Package allocation admits Pods to the node, one at a time: new Pods, and Pods that want other
// resources by an in-place resize (KEP-1287).
//
// Manager holds the one lock under which room is given away, and the resizes that wait for room. A
// PodAllocation is what one Pod's worker knows of its resources: what was allocated, what of it is
// actuated, and what became of its newest resize. Rules are admit's; podactions keeps the record
// over restarts.
//
// In: Pods, resizes, what was actuated. Out: refusals, allocations, facts, events and counts. A
// Manager may be called from any goroutine, a PodAllocation only from its Pod's worker.
//
// To add a cause for trying deferred resizes again: a call of RetryPendingResizes where room
// becomes free.
package allocation
