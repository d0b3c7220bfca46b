// Package probeplan computes probes: readiness, liveness and startup on endpoints of their own,
// from how fast a container answers, how long it takes to start, the objective of its service, and
// how soon it is restarted when it hangs.
//
// In: an Ask. Out: a Plan, with the arithmetic as lines of text, what becomes of a container that
// hangs as a time line, and what package probelint finds; or an error that names the figures which
// exclude each other. Pure; the times are those of kubelet/probe.
//
// What holds of each Plan: timeoutSeconds is at least twice the P99 and below periodSeconds; a hung
// container is given up within Ask.Restart, counted from the hang, however it falls between two
// questions; it has left the traffic before; slow answers of a healthy container cost no more than
// a tenth of what the objective allows.
package probeplan
