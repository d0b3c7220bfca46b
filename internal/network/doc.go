// Package network is the Pod network Gantry brings along when the machine has none: one bridge,
// addresses from one range, nftables for the rest.
//
// The agent makes what all Pods share (Ensure: bridge, forwarding, one nftables table, the CNI
// configuration); the CNI plugin (attach, started by the container runtime for each sandbox) joins
// one Pod to it; lease remembers who has what. Everything carries the instance's id, so that two
// instances on one machine, and other people's rules, are left alone.
//
// In: Config. Out: a conflist, links, rules; Clean takes them away again. rules.go is the table as
// text; bridge.go the links; to add a rule, add it there and look at rules_test.go's transcript.
package network
