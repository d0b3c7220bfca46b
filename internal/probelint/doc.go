// Package probelint checks the probes of Pods and Pod templates and reports, with numbers and a
// remedy, where they will cause harm.
//
// Manifests and running Pods are checked by the same rules, with the arithmetic of kubelet/probe.
// In: objects with a Pod or a Pod template, the Services that may select them, measured start and
// response times. Out: Findings, worst first.
//
// To add a rule: a function in its area's file, one row in Rules, one case in its table test.
package probelint
