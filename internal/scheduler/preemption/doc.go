// Package preemption finds the victims that must leave a node so that a Pod of higher priority
// fits, by a dry run of the filters on copies of nodes.
//
// On every node whose status is Unschedulable all Pods of lower priority are removed; if the Pod
// fits then, as many as possible are put back, the most important
// first, those whose disruption budget would be broken before others. Of the candidates the one
// that breaks fewest budgets wins, then the one with the lowest highest victim, the least sum of
// priorities, the fewest victims, the latest start. QoS plays no part.
//
// DryRunCache keeps a node's result for the next Pod of the same shape, as long as nothing about
// the node changed. Where the filters read of a node's Pods only the sum of their requests
// (schedule's ResourceChecker, IgnoresPods), DryRunCache also keeps each node's Pods in order of
// importance, and a new shape is tried by adding up requests instead of running every filter after
// every reprieve.
//
// Input: the Pod, the cycle's refusals, snapshot, plugins, budgets. Out: Candidate, with the node,
// its victims and a message in upstream's words. Pure: the scheduler carries it out.
package preemption
