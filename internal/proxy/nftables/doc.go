// Package nftables writes the proxy's rules into kernel tables, lists what is there, listens for
// changes by other programs, and deletes conntrack entries of stale UDP flows.
//
// A change is one transaction. If the kernel refuses it, ApplyEach halves it until the refused unit
// stands alone, so that one bad rule does not keep other Services from their endpoints. Changes go
// over netlink (package nfnetlink), which is fastest; the table's frame, and whatever netlink
// cannot encode or refuses, goes through the program nft (sigs.k8s.io/knftables), whose errors say
// why.
//
// In: rules.TableFrame, rules.Unit, rules.UDPFlows. Out: the table's content (rules.State), which
// units were refused and why. knftables' fake replaces the kernel in tests; test/proxy runs the
// same cases against the fake, nft and netlink.
package nftables
