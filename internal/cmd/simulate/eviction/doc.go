// Package eviction is `gantry simulate eviction`: which Pods a node evicts, from a mix in a file or
// from a live node's figures.
package eviction
