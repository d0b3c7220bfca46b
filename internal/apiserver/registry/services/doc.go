// Package services serves the Service: defaulting, validation, table columns, and the allocation of
// cluster IPs and node ports.
//
// An Allocator has one bit per address of the service ranges and per node port. It is initialized
// from the stored Services before the first write; each write allocates and releases what it
// changes. With several servers over one etcd the stored allocations decide: an IPAddress object
// per address (ipallocator), upstream's map of node ports (portallocator). RepairIPs and
// RepairNodePorts compare both with the Services; registry/services/repair applies the result. In:
// decoded Services, ranges, a list function, storages. Out: a resourcedef.Kind; what to repair and
// the events about it.
package services
