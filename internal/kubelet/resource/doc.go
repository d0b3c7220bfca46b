// Package resource turns requests and limits of Pods into cgroup values and OOM scores, and
// computes the node's allocatable.
//
// Paths of the QoS tree, cpu shares, quota, memory limits and oom_score_adj of Pods and containers,
// and the node's allocatable part.
//
// In: a Pod, the node's capacity, the kubelet's options. Out: cgroup paths and Values (written by
// linux/cgroup through a port), CRI container resources, lists of allocatable resources.
//
// To add a controller: a field of Values here and in linux/cgroup (the two have the same fields so
// that one converts into the other), and its file there.
package resource
