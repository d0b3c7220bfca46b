// Package scheduler is `gantry scheduler`: the flags of the scheduler alone, and its subcommand
// replay, which takes recorded decisions again and says which come out different.
package scheduler
