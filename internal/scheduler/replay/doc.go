// Package replay writes a decision of the scheduler down with all it was made from, makes it again,
// and says what differs.
//
// A Decision is one line of JSON: the nodes with the Pods on them, nominated Pods, the Pod, the
// objects around volumes and devices where it has any, the profile's configuration, the pick among
// equal nodes, and the result. Open builds the snapshot again; Replay schedules with the same
// plugins and the same pick, CompareConfig with another configuration.
//
// In: Inputs (what a cycle had) or a line of a file. Out: a line, or a Comparison. Not written
// down: what extenders and Coscheduling know; such decisions are passed over. To add: what a plugin
// reads besides nodes and Pods becomes a field of Decision, gathered in record.go and given back by
// the handle in plugins.go.
package replay
