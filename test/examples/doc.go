// Package examples builds the example modules as their users would, and runs what they make.
//
// In: examples/*. Out: proof that they compile against this version and do what they say.
package examples
