// Package services serves the Service: defaults, validation, columns, and the addresses and node ports it hands out.
//
// Chapter 1, written. An Allocator holds one bit per address of the service range and per node port; it is filled from the stored Services
// before the first write, and each write takes and gives back what it changes. All writers are in this process, so memory is enough; with
// several servers the store's own uniqueness check of the leader decides (see New).
// In: decoded Services, a range, a list function. Out: a row for apiserver.Kinds.
package services
