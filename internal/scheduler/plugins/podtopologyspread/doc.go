// Package podtopologyspread keeps Pods spread over zones, hosts or any node label: DoNotSchedule
// constraints refuse nodes, ScheduleAnyway constraints score them.
//
// Skew is the number of matching Pods in a node's domain, the new one included, minus the least of
// any domain. Nodes that affinity or taints rule out do not count as domains unless the
// constraint's policies say so. Pods without constraints get those of the profile (or the system's,
// which only score), matched by the Service or controller they belong to.
//
// In: PodTopologySpreadArgs, and a function that finds a Pod's selector. Out: refusals, scores
// equal to upstream's formulas. Pure.
package podtopologyspread
