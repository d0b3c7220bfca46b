// Package rules decides what NetworkPolicies (networking.k8s.io/v1) mean for the Pods of one node.
//
// Build turns policies, Pods and namespaces into a State: a chain per direction of what each
// isolated Pod of the node may receive or send, and sets of the addresses that selectors match.
// Diff returns the operations between two States. Names of chains are hashes of their rules, names
// of sets hashes of their selectors; so equal Pods share a chain, and a new peer Pod is one more
// element.
//
// In: In. Out: State, Op. What no policy allows is dropped; a field that cannot be parsed allows
// nothing. To add a kind of peer: peers.go; of port: ports.go; with a row in testdata's cases,
// which also run against the kernel.
package rules
