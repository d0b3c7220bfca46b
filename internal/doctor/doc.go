// Package doctor checks a machine, its container runtime and the nodes of a cluster: what is wrong,
// with numbers, and what to do about it.
//
// Explain tells of one Pod, doctor of what all Pods stand on.
//
// In: Facts, looked at by somebody else. A part that nobody looked at is nil, and its checks are
// silent. Out: Findings in the order of Checks, each with a remedy when something is to be done.
// Nothing is asked here, and the time is a fact.
//
// To add a check: a field of Facts if it looks at something new, a function of its area's file, one
// row in Checks, one case in the table of the test; doctor/gather looks, and cmd/doctor asks it to.
package doctor
