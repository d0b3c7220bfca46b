// Package crictl asks a container runtime directly and prints what it says, in the columns and
// forms of crictl.
//
// Past API server and kubelet: when the three disagree about what is on a node, the runtime is
// right. Reads only.
//
// In: the two services of CRI, ListOptions, a writer. Out: tables, JSON, YAML; Compare tells which
// Pods are known to one side and not to another. To add a listing: a function in the file of its
// thing and its command in internal/cmd/cri.
package crictl
