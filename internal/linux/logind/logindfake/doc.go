// Package logindfake is a system bus with a login service on it, served on a unix socket, for
// tests.
//
// It speaks D-Bus as far as logind does: authentication, properties, Inhibit with a file descriptor
// whose closing is seen, KillUnit, signals. Other services of the bus are a function of the tests
// (Other, Emit). In: the tests' wishes (Say, Delay). Out: what was asked of it (Locks, Reloads).
package logindfake
