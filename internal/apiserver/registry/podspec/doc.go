// Package podspec has the rules of a Pod's spec that Pods and Pod templates share: defaulting,
// validation, warnings.
//
// The Pod kind (registry/pods) and every kind with a Pod template (ReplicaSet, Deployment, Job, …)
// call the same functions, so that a template gets the same errors as a Pod. All are functions of
// their arguments, safe for concurrent use on different objects.
//
// In: core/v1 specs as decoded. Out: defaults set, or field errors with upstream's paths, texts and
// order. Files: defaults_*.go set defaults, drop_disabled.go removes fields behind feature gates,
// validate_*.go validate one area of the spec each, warn*.go warn. To add a field: its default in
// defaults_*.go, its check in the area's validate file, a case in the tests.
package podspec
