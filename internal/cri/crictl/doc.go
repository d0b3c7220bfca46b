// Package crictl reads from a container runtime and prints its answers in crictl's columns and
// formats.
//
// It bypasses API server and kubelet: if the three disagree about what is on a node, the runtime is
// right. Read only.
//
// In: CRI's two services, ListOptions, a writer. Out: tables, JSON, YAML; Compare finds Pods that
// one source reports and another does not. To add a listing: a function in the file of its object
// and its command in internal/cmd.
package crictl
