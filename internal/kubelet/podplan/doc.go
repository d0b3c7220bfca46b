// Package podplan decides what is done for one Pod on its node, and when to look again.
//
// Next compares what is wanted with what was seen and returns a Plan: an ordered list of actions,
// the time of the next look, and what an operator should read about the decision. It covers the
// sandbox and its attempts, init containers, sidecars, app and ephemeral containers, restart
// policies, rules and crash back-off, kills after failed probes, the active deadline, in-place
// resize, and the order and times of stopping. App containers have no order among each other,
// neither at the start nor, without sidecars, at the end: nothing may rely on one.
//
// In: the Pod, the runtime's state of it (Observed), the health of its containers, failed tries, a
// Termination, the time. Out: a Plan. Pure: the same input gives the same Plan, and the Plan for a
// Pod that is as it should be does nothing. podworker calls Next, podactions carries actions out,
// podstatus shows the same input to the API. Upstream: computePodActions of kuberuntime.
//
// To add an action: a type in actions.go, its place in next.go or stop.go, a file
// podactions/<action>.go, a transcript per cause under testdata.
package podplan
