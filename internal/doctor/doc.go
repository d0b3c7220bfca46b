// Package doctor checks a machine, its container runtime and the nodes of a cluster: what is wrong,
// with numbers, and what to do about it.
//
// Package explain is about one object, doctor about what all Pods depend on.
//
// In: Facts, gathered by the caller. Checks of parts that are nil return nothing. Out: Findings in
// the order of Checks, each with a remedy if something is to be done. This package does no I/O; the
// time is one of the Facts.
//
// To add a check: a field of Facts if it needs something new, a function in its area's file, one
// row in Checks, one case in the test's table; doctor/gather fills the field.
package doctor
