// Package routes leads Pods' traffic to other nodes: by routes where nodes share a segment, through
// one VXLAN device otherwise.
//
// Plan.go decides from Nodes what this node should have (pure); links.go makes routes, device,
// neighbours and forwarding entries equal to that over netlink; changes.go tells when the host's
// links or routes changed, as a link that comes back has lost its routes.
//
// In: this node, the others (addresses, Pod ranges, the MAC of their VXLAN end from an annotation).
// Out: kernel state, which Clean takes away.
package routes
