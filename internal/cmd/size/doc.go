// Package size is `gantry size`: requests from usage, and what a node of a size keeps from Pods.
package size
