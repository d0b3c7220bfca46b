// Package prober puts probes' questions at their times and keeps the verdicts.
//
// The shell of probe: one timer per probe, nothing ticking while nothing is due; failures become
// events, verdicts and failures facts.
//
// In: Pods with their running containers (Sync), answers of the kinds. Out: verdicts, and a call of
// Changed for each change of one.
package prober
