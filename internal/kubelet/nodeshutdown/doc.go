// Package nodeshutdown decides a graceful node shutdown: which Pods end when, and how long each may
// take.
//
// Steps come from shutdownGracePeriod and shutdownGracePeriodCriticalPods, or from
// shutdownGracePeriodByPodPriority (KEP-2000, KEP-2712). Groups of Pods end one after another, the
// lowest priority first; a Pod has its own grace, but no more than its group. While a node shuts
// down it takes no Pod in and is not Ready.
//
// In: KubeletConfiguration, Pods. Out: groups in their order, terminations of Pods, refusals, the
// cause why the node is not Ready.
//
// To add a rule: a function here. nodeshutdown/manager acts.
package nodeshutdown
