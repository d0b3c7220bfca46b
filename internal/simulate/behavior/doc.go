// Package behavior says how long containers of a simulated cluster take: to start, to become ready,
// to stop, to end.
//
// In: measured times of Pods of the same kind, or times that a person gives. Out: the times of one
// Pod, drawn by seed between the median and the 99th percentile, the same for the same Pod and
// seed.
package behavior
