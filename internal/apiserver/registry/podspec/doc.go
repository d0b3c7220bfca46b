// Package podspec holds the rules of a Pod's spec that Pods and Pod templates share: defaults,
// validation, warnings.
//
// The Pod kind (registry/pods) and every kind with a Pod template (ReplicaSet, Deployment, Job, …)
// call the same functions, so that a bad template is refused with the texts a bad Pod gets.
// Everything here is a function from values to values.
//
// In: core/v1 specs as decoded. Out: defaults filled in, or field errors with upstream's paths and
// texts. Files: defaults_*.go fill in, drop.go removes fields whose feature is off, validate_*.go
// judge one area of the spec each, warn.go warns. To add a field: its default in defaults_*.go, its
// rule in the validate file of its area, a case in the table next to it.
package podspec
