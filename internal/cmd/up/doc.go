// Package up is `gantry up`: the flags of a whole cluster on this machine, which app runs.
package up
