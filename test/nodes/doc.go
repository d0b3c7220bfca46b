// Package nodes runs clusters of several nodes on one machine: each node is a network namespace
// with a kubelet, a containerd and a Service proxy of its own; two share a segment, the third is
// behind a router. What is between them is real: routes, VXLAN, nftables, links that go down.
//
// Needs root and what `make build` puts into build/bin (GANTRY_BIN names another folder). Nothing
// is left behind: that is checked.
package nodes
