// Package bind makes a choice of node come true, or takes it back: assume, reserve, permit,
// pre-bind, bind. Here are all writes of the scheduler: the binding, the PodScheduled condition
// with the nominated node, and the deletion of preempted Pods.
//
// Claim runs in the scheduling cycle and returns when the node's room is taken; Commit runs beside
// later cycles, waits for Permit and writes. Whatever fails in either, every claim is taken back
// and the BindFailure says at which point and by which plugin.
//
// In: a profile and a frameworkruntime.PodCycle. Out: nil, or a *BindFailure for the loop to tell.
// To add an acting plugin: a file here and a row in Factories.
package bind
