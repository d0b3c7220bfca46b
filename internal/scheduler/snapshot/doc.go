// Package snapshot holds nodes and their Pods as the plugins of k8s.io/kube-scheduler/framework
// read them.
//
// Cache follows nodes and Pods; it has no lock, its owner guards it. UpdateSnapshot returns a
// Snapshot that never changes afterwards and costs one pointer per node plus the nodes that changed
// since the last one.
//
// In: v1.Node and v1.Pod. Out: framework.NodeInfo, framework.SharedLister, and edits: With...,
// Without... return a new Snapshot sharing all that is not edited, so that preemption, `why` and
// simulations ask "what if" of the same code.
//
// Pure. To add a fact about nodes: a field of NodeInfo kept in nodeinfo.go (add, remove, clone), an
// accessor the framework interface names.
package snapshot
