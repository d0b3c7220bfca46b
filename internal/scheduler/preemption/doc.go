// Package preemption finds which Pods would have to go so that one of higher priority fits, by
// placing it again on nodes with Pods taken away in thought.
//
// On every node that refused the Pod for a reason that others' leaving may lift, all Pods of lower
// priority are taken away; if it fits then, as many as possible are put back, the most important
// first, those whose disruption budget would be broken before others. Of the candidates the one
// that breaks fewest budgets wins, then the one with the lowest highest victim, the least sum of
// priorities, the fewest victims, the latest start. QoS plays no part.
//
// What came of a node is kept by DryRunCache for the next Pod of the same shape, as long as nothing
// about the node changed. Where the filters read of a node's Pods only what they ask for together,
// DryRunCache also keeps each node's Pods in order of importance, and a new shape is tried by
// adding up instead of asking every filter about every return.
//
// Input: the Pod, the cycle's refusals, snapshot, plugins, budgets. Out: Candidate, with the node,
// its victims and a message in upstream's words. Pure: carrying it out is scheduler/bind's.
package preemption
