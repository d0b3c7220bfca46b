// Package logindfake is a system bus with a login service on a unix socket, for tests.
//
// It implements the part of D-Bus that logind uses: authentication, properties, Inhibit with a file
// descriptor whose closing is noticed, KillUnit, signals. Tests provide other services of the bus
// as a function (Other, Emit). In: SetDelay, EmitPrepareForShutdown. Out: what was requested
// (Locks, OnLoad).
package logindfake
