// Package breaker breaks things in a testcluster at random, by seed, asks `gantry why` and scores
// its data: the truth is known because the breaker made the break.
//
// A row of kinds is a manifest with placeholders, the question, and the truth: the object and field
// to blame, numbers that must be told, and a value that mends it. Rows without truth are healthy or
// merely slow things, of which nothing may be called broken. New rows are written from the API's
// documentation, not from the rules of internal/explain.
package breaker
