// Package replay writes a decision of the scheduler down with all it was made from, makes it again,
// and says what differs.
//
// A Decision is one line of JSON: the nodes with the Pods on them, promised Pods, the Pod, the
// objects around volumes and devices where it has any, the profile's configuration, the pick among
// equal nodes, and the ruling. Open puts the cluster together again; Again rules with the same
// plugins and the same pick, Against with another configuration.
//
// In: Inputs (what a cycle had) or a line of a file. Out: a line, or a Comparison. Not written
// down: what extenders and Coscheduling know; such decisions are passed over. To add: what a plugin
// reads besides nodes and Pods becomes a field of Decision, gathered in take.go and given back by
// the handle in judges.go.
package replay
