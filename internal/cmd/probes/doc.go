// Package probes is `gantry probes`: a container's probes from how fast it answers and starts, with
// the arithmetic.
package probes
