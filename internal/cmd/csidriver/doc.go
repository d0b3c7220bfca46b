// Package csidriver is `gantry csi-driver`: the flags of the driver of local volumes alone, which
// app runs.
package csidriver
