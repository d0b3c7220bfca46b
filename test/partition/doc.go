// Package partition cuts a node with real containers off its API server and looks at what it does
// meanwhile and afterwards, and lets a node run its own API server. It needs root and `make build`.
//
// In: the programs of build/bin. Out: nothing but the tests' result; all that was started is
// cleaned up.
package partition
