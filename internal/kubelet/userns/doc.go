// Package userns decides which ids of the host a Pod with users of its own (spec.hostUsers: false)
// gets.
//
// A node has one run of ids, given by /etc/subuid and /etc/subgid for the user "kubelet" or taken
// by default right above 65535; each Pod gets a part of it that no other Pod of the node has, for
// user and group ids alike, for as long as its directory exists.
// https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/ (KEP-127).
//
// In: idsPerPod and maxPods of the configuration, the output of getsubids, the ranges that are
// taken. Out: a Pool, a Range, or an error naming the rule that is broken. userns/allocations keeps
// ranges on disk.
package userns
