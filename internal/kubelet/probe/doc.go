// Package probe has the rules of probes: when a probe is due, and which result follows from its
// thresholds.
//
// prober holds the timers and asks; probe/<kind> knows one way to ask.
//
// In: a container's probes, its start time, answers. Out: the time of the next question (Next), a
// Health and what the journal and the Pod's events say of an answer (Results.Add, EventFor). Pure.
//
// To add a kind: a directory probe/<kind> whose value implements Prober, its field in
// prober.Probers, probetest.Run in its test.
package probe
