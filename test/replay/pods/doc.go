// Package pods lives the recorded lives of Pods (test/recordings/pods) again on a running cluster
// and compares what clients see.
//
// In: recorded cases, a cluster. Out: per case a Recording of the same form (watches of Pods,
// Events and owners, printed rows, describe, replies, output), and its differences from upstream's.
// case.go reads, run.go and steps.go act, watch.go and shape.go record, align.go,
// check.go and compare.go compare.
package pods
