// Package manager is the graceful node shutdown: it inhibits the machine's shutdown until this
// node's Pods have ended in order.
//
// It takes a delay lock of the system's login service, waits for the word that the machine goes
// down, ends Pods group by group as drain plans it, and lets go. A shutdown that is called off
// makes it take a lock again. A bus that goes away is asked again.
//
// In: the login service (Bus), the Pods of the node, drain's plan. Out: ends of Pods, an event
// about the node, whether it shuts down (Now).
//
// To add a way to learn of a shutdown: another Bus.
package manager
