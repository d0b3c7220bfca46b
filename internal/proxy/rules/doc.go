// Package rules turns Services and EndpointSlices into the nftables rules that lead a packet to an
// endpoint.
//
// What readiness decides, packets feel here. One table per address family. A packet is looked up
// once by address, protocol and port in a verdict map, so its cost does not grow with the number of
// Services. It goes to a chain that all Services with as many endpoints share, which takes the
// addresses from maps, or, with affinity, ways in from outside or more endpoints, to the port's
// own. Names of own chains carry a hash of their rules: equal name, equal rules. A restart
// therefore compares names, and a change of endpoints puts a new chain beside the old one, turns
// the map's element over and drops the old chain, in one transaction.
//
// Cluster IPs are answered on the instance's own bridge and the node alone, as instances on one
// machine share addresses; node ports on all of a node's addresses, 127.0.0.1 among them. A host
// without a default route cannot ask for a cluster IP.
//
// In: Services, EndpointSlices, a Node, Settings. Out: ServicePort (who gets the traffic of one
// Service port, for rules, conntrack, health checks and explanations), State (chains, sets,
// elements as values), Ops (what leads from one State to another). view.go reads the API's objects;
// choose.go picks endpoints; chains.go writes one port's rules; table.go is the frame all share;
// book.go keeps who claims what, so that one Service's change costs one Service's work; delta.go
// orders the operations. To add a rule of one Service: chains.go. A rule of all: table.go.
// NetworkPolicy and DNS have tables of their own: these hooks run at -110 to -90 and srcnat, and
// only first packets of a connection pass them.
package rules
