// Package nftables puts the proxy's rules into the kernel's tables, reads back what is there, hears
// who else changes it, and forgets UDP conversations with endpoints that went.
//
// One transaction holds a whole change; when the kernel refuses one it is halved until what is
// refused stands alone, so that one bad rule keeps no other Service from its endpoints. Changes go
// by netlink (wire), which takes the kernel's time and no more; the table's frame, and what netlink
// has no words for or refuses, goes by the program nft (sigs.k8s.io/knftables), which also says
// why.
//
// In: rules.Frame, rules.Unit, rules.Port. Out: what is in the table (rules.State, chains by name),
// which units were refused and why. knftables' fake stands in for the kernel in tests; test/proxy
// holds the fake, nft and netlink to the same answers.
package nftables
