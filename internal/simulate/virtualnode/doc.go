// Package virtualnode is the kubelets of a simulated cluster, in virtual time.
//
// In: Pods that were bound to nodes, and how long their containers take. Out: statuses, written as
// a kubelet writes them, and the last deletion of Pods that have stopped. What a Pod needs next and
// what its status is, podplan and podstatus decide, as in the kubelet; only the runtime below is
// made of times instead of processes.
package virtualnode
