// Package networkagent is the part of a node's Pod network that follows the API server: Agent takes
// the node's range from its Node, keeps routes to other nodes, enforces network policies and frees
// addresses that no Pod holds; Credentials gives a joined node the certificate for that.
//
// What is to be done is decided in network/routes, network and networkpolicy, which know no API
// server. It is used by app for `gantry up` and `gantry kubelet`.
package networkagent
