// Package kubectl plays the commands of stock kubectl against `gantry up`, one after the other as a
// person would.
//
// In: build/bin (or GANTRY_BIN). Out: a table of commands and what they must print. To add a
// command: a row in commands_test.go.
package kubectl
