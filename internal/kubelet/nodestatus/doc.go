// Package nodestatus registers the Node and updates its status: addresses, capacity, conditions,
// images; and renews the node's Lease.
//
// The scheduler and the controllers believe what stands here: allocatable, Ready, the lease's renew
// time.
//
// In: machine facts, the runtime's Status, an allocatable function and pressure signals, all passed
// in. Out: one Node object, created or reconciled once and patched when something changed or every
// five minutes, and one Lease renewed every ten seconds. Setters decide (functions from facts to a
// field of the Node); Reporter acts.
//
// To add a field: a Setter in setters.go and its row in Setters.
package nodestatus
