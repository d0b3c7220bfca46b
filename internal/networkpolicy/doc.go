// Package networkpolicy puts NetworkPolicies in force for the Pods of this node, by one nftables
// table at the forwarding hook.
//
// One goroutine holds the newest objects, asks rules what the table should have and gives it to the
// kernel in one transaction. Nothing but policies is watched until the first one comes. A Pod's
// start passes the gate: the CNI plugin tells the Pod's address and waits until the rules for it
// are in force, so no packet gets through before. What is in the kernel stays while Gantry is away;
// no Pod starts then.
//
// In: Options (client, leases of this node, table, gate). Out: a table, answers at the gate.
// Decisions are in rules (pure): explainers may call rules.Build for what may reach whom.
package networkpolicy
