// Package podworker lives each Pod's life: one goroutine and one mailbox per Pod.
//
// A worker looks at the runtime, lets podplan decide, tells podstatus, and has podexec act, until
// nothing is to be done; then it sleeps until its bell rings or the plan's time comes. The newest
// wish wins; wishes only tighten (a stop is never taken back, its deadline only moves earlier); a
// tighter wish interrupts what is being done. Only the worker touches its Pod's facts. A Pod waits
// until an older one of its name is released, which is not before nothing of it can come any more:
// not while a sandbox whose making was given up may still appear (podplan.Doubt), nor while
// something of it that an earlier kubelet left is in the runtime.
//
// In: wishes (Tell), rings (Ring: something of this Pod may have changed). Out: actions, statuses,
// facts and events, through the ports of Deps.
//
// To add a fact: a field in podplan.Facts, its place in Stage, and the line of the worker that
// learns it.
package podworker
