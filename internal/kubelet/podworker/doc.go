// Package podworker syncs the Pods of the node with what their sources say: one goroutine and one
// mailbox for each Pod, its worker (upstream: pod_workers).
//
// A worker observes the runtime, has podplan decide, podview say what is shown, and podactions act,
// until nothing is left to do; then it sleeps until it is woken or the plan's time comes. The
// newest update wins, but a stop is never taken back and its deadline only moves earlier; a
// stricter update cancels what is under way. A Pod waits until an older one of its name is gone for
// good, also from a runtime that may still make its sandbox (podplan.SandboxUncertain) or has
// leftovers of an earlier kubelet.
//
// In: updates (UpdatePod) and wake-ups, from any goroutine; none of them waits. Out: actions,
// statuses, facts and events, through the ports of Deps. The loop is drawn at worker.
//
// To add a fact: a field in podplan.Facts, its place in Stage, and the line of the worker that
// learns it.
package podworker
