// Package nodepressure tells which Pods would be evicted: it runs eviction.Decide, the function
// that decides on a node, over a node in numbers and over time.
//
// In: Node (signals, thresholds, Pods and what they take; ReadScenario reads one from a file), for
// Run also how long. Out: Result, one Pass for each time that the node was looked at: signals,
// thresholds, what was reclaimed, all Pods in order with the reason of each place, the victim; and,
// by Forecast, who would go on a node that is well, at how many bytes, and what would save it.
// Results print themselves as text, JSON and SVG.
//
// Nothing is ranked or decided here. What a node has is its figures at the start, less what its
// Pods take more since then, and what Pods that ended gave back. To add a figure of a Pod: a row of
// amounts (set.go).
package nodepressure
