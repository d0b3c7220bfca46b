// Package networkpolicy enforces NetworkPolicies for the Pods of this node with one nftables table
// at the forward hook.
//
// One goroutine reads the informers' caches, has rules compute the table and applies it in one
// transaction. Until the first policy exists only policies are watched. The CNI plugin announces a
// Pod's addresses on a socket before the Pod starts and waits until its rules are in force, so that
// no packet passes before. The kernel's table stays while Gantry is down; Pods cannot start then.
//
// In: Options (client, leases of this node, table, listener). Out: the table, answers to the CNI
// plugin. Decisions are in rules (pure); explanations may call rules.Build too.
package networkpolicy
