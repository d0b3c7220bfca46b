// Package why sets up broken Pods as fixtures describe them, asks `gantry why`, and scores the
// answer: cause, facts, wrong claims, and whether a printed remedy helps.
//
// In: a directory of fixtures (test/fixtures/why) and the built programs. Out: Score per fixture.
// Fixtures with fake nodes run `gantry server`, `scheduler` and `controllers` as processes; nodes
// are objects with a lease that this package keeps alive.
package why
