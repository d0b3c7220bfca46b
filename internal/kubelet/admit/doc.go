// Package admit decides whether a Pod may start on this node.
//
// Ordered checks; the first that says no wins, and the Pod fails with its reason: operating system,
// sysctls, resources, node name, selector and affinity, host ports, taints that evict. The
// arithmetic is that of pod/fit, shared with the scheduler.
//
// In: the Pod, the Node, the Pods that take part of it. Out: nil, or a refusal with upstream's
// reason as code and its message as detail.
//
// To add a check: a function and its row in Checks, a row in the table of the test.
package admit
