// Package explain answers why an object is in its state: what a Pod waits for or what ended it,
// with numbers, since when, what happens next, and what a user can do.
//
// It finds the cause from the Pod, its journal, and the objects around it, by the same pure rules
// that decided. In: In, gathered by explain/gather from any API server. Out: Answer, which prints
// itself as text and JSON. To add a cause: a function in the file of its subject and one row in
// causes; the first row that answers wins.
package explain
