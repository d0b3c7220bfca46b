// Package network is the Pod network that Gantry sets up if the machine has none: one bridge,
// addresses from one range, nftables for the rest.
//
// The agent makes what all Pods share (Ensure: bridge, forwarding, one nftables table, the CNI
// configuration); the CNI plugin (cniplugin, run by the container runtime for each sandbox)
// connects one Pod; ipam records leases. All names contain the instance's id, so that other
// instances on the machine, and other people's rules, are left alone.
//
// In: Config. Out: a conflist, links, rules; Clean removes them. rules.go is the table as text;
// bridge.go the links. To add a rule: rules.go, and check rules_test.go's transcript.
package network
