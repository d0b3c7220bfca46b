// Package explain answers why: what a Pod waits for or what ended it, with numbers, since when,
// what happens next, and what a person can do.
//
// It names a blocker from the Pod as it is, its journal, and the objects around it, by the same
// pure rules that decided. In: In, gathered by app from any API server. Out: Answer, which prints
// itself as text and JSON. To add a cause: a function in the file of its subject and one row in
// causes; the first row that answers wins.
package explain
