// Package cli is what every verb of gantry shares: the streams it talks to, wrong calls as opposed
// to calls that failed, errors that carry a remedy, exit codes, finding the API server and making
// its client, logging, the printed steps of coming up, and what is asked of the machine before
// anything is started.
//
// Execute runs a command tree that Root made and returns the exit code: 0, 1 for what failed, 2 for
// a wrong call. An error is one sentence on IO.Err, its remedy (WithFix) is the line below it.
package cli
