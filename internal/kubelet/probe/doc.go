// Package probe decides when a container is asked how it is, and what the answers add up to.
//
// Probe/ask holds the timers and does the asking, probe/<kind> knows one way to ask.
//
// In: a container's probes, its start time, answers. Out: the time of the next question, a Health.
//
// To add a kind: a directory probe/<kind> with a value that has Ask(ctx, Target) Outcome, one row
// in the app's table of kinds, probetest.Run in its test.
package probe
