// Package ipam records which Pod has which addresses and host ports.
//
// Allocations is a value with the rules (next address, port conflicts); Store keeps it in a file
// under a lock, shared by the CNI plugin's short-lived processes and the agent. Leases are valid
// until the machine restarts, like network namespaces. In: requests of the CNI plugin. Out: leases.
package ipam
