// Package prober runs the probes of containers: a worker for each probe, whose results become
// readiness, liveness and startup.
//
// Package probe decides when to ask and what answers add up to; here are the timers, one for
// each probe, nothing that ticks while nothing is due. Answers become metrics, failures events,
// results and failures facts. podworker turns results into readiness and restarts.
//
// In: Pods with their running containers (SyncPod), answers of the kinds (Probers). Out: Health,
// and a call of Deps.Changed for each change of one.
//
// To add a kind of probe: see probe; its Prober is a field of Probers.
package prober
