// Package rules turns Services and EndpointSlices into the nftables rules that send a packet to an
// endpoint.
//
// There is one table per IP family. A packet is looked up once by address, protocol and port in a
// verdict map, so its cost does not grow with the number of Services. It goes to a chain that all
// Services with as many endpoints share, which takes the addresses from maps; with affinity,
// external addresses or more endpoints it goes to a chain of the port. Names of such chains contain
// a hash of their rules: equal name, equal rules. So a restart only compares names, and a change of
// endpoints adds a new chain beside the old one, replaces the map's element and deletes the old
// chain, in one transaction.
//
// Cluster IPs are served on the instance's own bridge and the node alone, because instances on one
// machine share addresses; node ports on all addresses of the node, 127.0.0.1 among them. A host
// without a default route cannot reach cluster IPs.
//
// In: Services, EndpointSlices, a Node, Settings. Out: ServicePort (the endpoints of one Service
// port, for rules, conntrack, health checks and explanations), State (chains, sets, elements), Ops
// (the way from one State to another). serviceport.go reads API objects; topology.go picks
// endpoints; chains.go writes a port's rules; frame.go the rules that all share; desiredstate.go
// records claims, so that a change of one Service costs the work of one; delta.go orders
// operations. To add a rule of one Service: chains.go; one of all: frame.go. NetworkPolicy and DNS
// have tables of their own: these hooks run at -110 to -90 and srcnat, and see only the first
// packet of a connection.
package rules
