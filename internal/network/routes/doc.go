// Package routes sends Pods' traffic to other nodes: by routes where nodes share a network segment,
// through one VXLAN device otherwise.
//
// plan.go decides from Nodes what this node should have (pure); router.go makes routes, device,
// neighbours and forwarding entries equal to that over netlink; linkchanges.go reports changes of
// the host's links, since a link that goes down loses its routes.
//
// In: this node, the others (addresses, Pod CIDRs, reachability and VTEP MAC from annotations).
// Out: kernel state, which Clean removes.
package routes
