// Package logind is a client of systemd's login service over D-Bus: the maximum delay of a
// shutdown, inhibitor locks, and the signal that a shutdown begins.
//
// In: the address of the system bus. Out: Session. https://systemd.io/INHIBITOR_LOCKS
//
// To add a call: a method of Session and its answer in logindfake.
package logind
