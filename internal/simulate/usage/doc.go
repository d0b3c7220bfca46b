// Package usage says what containers of a simulated cluster take of cores and memory.
//
// In: figures of a cluster's metrics API, and by how much the load of a workload changes. Out: what
// each container takes now. The load of a workload is spread equally over its Pods that are ready,
// so that it weighs less on each when more are.
package usage
