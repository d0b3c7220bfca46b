// Package services serves the Service: defaults, validation, columns, and the addresses and node
// ports it hands out.
//
// An Allocator holds one bit per address of the service range and per node port; it is filled from
// the stored Services before the first write, and each write takes and gives back what it changes.
// What decides between several servers over one store are the ledgers: an IPAddress object per
// address, upstream's map of node ports. RepairIPs and RepairNodePorts compare both with the
// Services. In: decoded Services, a range, a list function, ledgers. Out: a row for
// apiserver.Kinds; what to repair and what to tell about it.
package services
