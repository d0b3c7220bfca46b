// Package lifecycle holds one list of Pods' lives, lived over the fake runtime (testcluster) and
// over containerd (`gantry server`, `gantry kubelet` and so on as processes of their own): what
// happens to a Pod must not depend on which of them runs it.
//
// Over containerd root only, with what `make build` makes (GANTRY_BIN names another folder). A case
// is a Pod, steps, and what must have been seen at the end: phases in order, conditions, states of
// containers, events per container in order. In: the case tables beside the tests. Out: a test
// report per case and runtime. All cases of one runtime share one instance and run at the same
// time. To add a case: a row in the table of its topic.
package lifecycle
