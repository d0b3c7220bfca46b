// Package memorymanager gives containers memory and huge pages of NUMA nodes that nobody else
// counts on (KEP-1769, the policies None and Static).
//
// In: the machine, what of each node is reserved for the system, Pods that are admitted, the
// affinity of the topology manager. Out: the memory of each container, for its cpuset.mems, and a
// checkpoint that outlives the kubelet. What a Pod asks for, its hints and what an allocation does
// to the machine are pure functions over a State.
//
// To add a kind of memory: where request and newMachine read kinds.
package memorymanager
