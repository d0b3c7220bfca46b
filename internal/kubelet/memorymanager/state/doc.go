// Package state is which memory of which NUMA nodes belongs to which containers, and the file
// memory_manager_state that keeps it, in upstream's format.
//
// In: a State, or the content of the file. Out: the other of both. Types are named as upstream's,
// for their names are a part of the checksum.
package state
