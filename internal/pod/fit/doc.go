// Package fit says whether a Pod fits a node: arithmetic on requests, taints, node affinity and
// ports.
//
// The scheduler filters with it before binding and the kubelet admits with it after, so that both
// come to one answer.
//
// In: plain API objects and Vector sums. Out: what is missing (Shortage, Taint, port), never a text
// for an API object. Pure. To add a rule that both sides check: a function here, a scheduler plugin
// and a kubelet/admit check that call it.
package fit
