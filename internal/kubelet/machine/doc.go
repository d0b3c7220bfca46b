// Package machine describes the processors and the memory of a machine: sockets, NUMA nodes, cores,
// hyperthreads, uncore caches, memory and huge pages of each node, distances.
//
// In: the kernel's /sys as a file system. Out: an Info, the same for the same files. Whoever places
// CPUs, memory or devices reads it; nothing here changes anything.
package machine
