// Package rules decides what NetworkPolicies (networking.k8s.io/v1) mean for the Pods of one node.
//
// Build turns policies, Pods and namespaces into a State: for each isolated Pod of the node a chain
// of what may come in or go out, and sets of the addresses that selectors mean. Diff tells what
// changes between two States. Chains are named by what they say, sets by the selectors they stand
// for, so that equal Pods share a chain and a Pod that comes elsewhere is one element more.
//
// In: In, values. Out: State, Change. What nobody allows is dropped; a field that cannot be read
// allows nothing. To add a kind of peer: routes.go; of port: ports.go; a row in testdata's cases,
// which the kernel is asked as well.
package rules
