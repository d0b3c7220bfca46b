// Package cpuassignment chooses which CPUs a container gets for its own: whole sockets, NUMA nodes,
// caches and cores first, packed on few nodes or distributed evenly over them, as v1.37's static
// CPU manager policy does.
//
// In: the machine, the CPUs that are free, how many are wanted and the policy's options. Out: the
// CPUs. Equal inputs give equal CPUs.
//
// To add a way of choosing: an option, and where TakeByTopology asks it.
package cpuassignment
