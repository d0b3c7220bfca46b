// Package queue decides who is next, and for everybody else which event would wake them.
//
// A Pod stands in one of four places: active (next by the profile's order), backoff (failed lately,
// its time not yet over), unschedulable (until an event that a plugin which refused it thinks
// helpful, or five minutes), gated (until the gates are gone). A Pod taken by Pop is in flight:
// events that happen meanwhile are kept and looked at when it comes back. When nothing is active,
// Pop takes from backoff rather than idle; Pods that failed by an error wait.
//
// In: Pods, cluster events, the time. Out: the next Entry, and Moves that say who was moved where,
// by which event and which plugin's hint. Pure: no lock, no clock; the loop guards it and holds the
// one timer (Wake). To add a reason to wake: the plugin's EventsToRegister; nothing changes here.
package queue
