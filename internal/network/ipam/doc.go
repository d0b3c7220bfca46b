// Package ipam remembers which Pod has which address and which host ports.
//
// Allocations is a value with rules (who gets the next address, who collides over a port); Store
// keeps one Allocations in a file under a lock, for the CNI plugin's many short processes and the
// agent. The file lives as long as the machine is up, as the network namespaces do. In: requests of
// the CNI plugin. Out: leases.
package ipam
