// Package app is the composition root: the only package that knows all others; one file per
// subcommand.
//
// A subcommand reads flags, makes the parts with their hands, joins them, runs them and turns
// errors into one clear sentence with a remedy and an exit code. No decision about a Pod is made
// here. In: arguments. Out: running parts, an exit code.
package app
