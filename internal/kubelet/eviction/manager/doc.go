// Package manager is the eviction manager: it reads how much memory, disk and process ids are left,
// and acts on what eviction.Decide says.
//
// It looks every ten seconds, at once when the kernel tells that memory runs short or a reading
// between looks shows it, and again as soon as a victim has ended. One Pod goes at a time.
//
// In: figures of the node (Observer), of Pods, thresholds. Out: conditions of the node, dead
// containers and images reclaimed, Pods that end, events, counters.
//
// To add a figure: a field of eviction.Figures, filled in by Observer.
package manager
