// Package cgroup writes, reads and removes cgroups of version 1 (all controllers, the hybrid
// unified tree with them) and version 2.
//
// The kubelet makes the QoS tree and each Pod's cgroup with it; the runtime makes the containers'
// below.
//
// In: paths below the root this tree was opened for, Values. Out: files under /sys/fs/cgroup; usage
// read from them.
//
// To add a controller: a row in v1.go and v2.go, a field of Values (kubelet/resource has the same
// fields).
package cgroup
