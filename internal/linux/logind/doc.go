// Package logind speaks with systemd's login service over D-Bus: how long it delays a shutdown, a
// lock that delays one, and the word that one begins.
//
// In: the address of the system bus. Out: Session. https://systemd.io/INHIBITOR_LOCKS
//
// To add a call: a method of Session and its answer in the tests' service.
package logind
