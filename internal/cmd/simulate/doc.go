// Package simulate is gantry simulate: what a change of a cluster will bring, tried on a copy.
package simulate
