// Package services serves the Service: defaults, validation, columns, and the addresses and node
// ports it hands out.
//
// An Allocator holds one bit per address of the service range and per node port; it is filled from
// the stored Services before the first write, and each write takes and gives back what it changes.
// Between several servers over one store the stored allocations decide: an IPAddress object per
// address (ipallocator), upstream's map of node ports (portallocator). RepairIPs and
// RepairNodePorts compare both with the Services; repair carries out what they find. In: decoded
// Services, a range, a list function, storages. Out: a row for apiserver.Kinds; what to repair and
// which events to write about it.
package services
