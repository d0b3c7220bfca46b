// Package stats reports what the node, its Pods and containers use: /stats/summary,
// /metrics/resource and /metrics/cadvisor.
//
// What is read (cgroups first, the runtime where it has none of a Pod, directories for disk)
// becomes one Snapshot in collect.go; summary.go, resource.go and cadvisor.go are functions from a
// Snapshot to what is served, with the names and labels users' dashboards rely on.
//
// In: Deps, which read the kernel's numbers. Out: Summary values and metric families.
// Nobody asks: nothing is read.
//
// To add a metric: a row in the table of its file. To add a number of the kernel: pod/usage and
// linux/cgroup first.
package stats
