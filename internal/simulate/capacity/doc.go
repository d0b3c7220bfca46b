// Package capacity says how many further Pods of a kind fit into a cluster, and what runs out
// first.
//
// In: the cluster's objects and a Pod. Out: a count by node shape. Each Pod is placed by
// schedule.SchedulePod with the scheduler's default plugins and its columns, one after the other,
// as if they came at once and nothing else did; nothing is pushed out.
package capacity
