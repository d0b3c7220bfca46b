// Package columns keeps facts about nodes as arrays by the node's place in the snapshot's list, so
// that a question to all nodes is a loop over numbers.
//
// Table holds what plugins read of nodes: room and use of each resource, taints and label values
// interned to numbers. Ranks holds the totals of one shape of Pods and finds the best. Evaluator is
// the Filter and Score of a plugin for many rows at once.
//
// In: a snapshot, then its successors: only rows that changed are read again. Out: columns, best
// rows. To add a column: a field of Table filled in read, or one made on demand like Labels.
//
// Pure.
package columns
