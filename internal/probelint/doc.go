// Package probelint reads what a Pod asks for and says where its probes will hurt it, with numbers
// and a remedy.
//
// It judges files before they are applied, and Pods that run, by the same rules; it uses the
// arithmetic of kubelet/probe.
//
// In: objects that hold a Pod or a Pod template, the Services that may select them, what is known
// of their speed. Out: Findings, worst first.
//
// To add a rule: a function of its area's file, one row in Rules, one case in its table test.
package probelint
