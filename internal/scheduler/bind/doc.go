// Package bind takes a Pod from the chosen node to the binding: assume, Reserve, Permit, PreBind,
// Bind; and rolls a failed binding back (Binder.rollBack). All writes of the scheduler are here:
// the binding, the PodScheduled condition with the nominated node, and the deletion of victims.
//
// AssumeAndReserve runs in the scheduling cycle and returns when the node's room is taken;
// BindingCycle runs beside later cycles, waits on Permit and writes.
//
// In: a profile and a frameworkruntime.PodCycle. Out: nil, or a *BindFailure for the scheduler to
// state. To add a plugin that writes: a file here and a row in Factories.
package bind
