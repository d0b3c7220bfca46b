// Package nodestatus makes the node's own Node object and keeps it true: registration, addresses,
// capacity, conditions, images, lease.
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
