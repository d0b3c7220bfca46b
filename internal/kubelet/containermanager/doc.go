// Package containermanager joins the managers of a node's resources: topology manager, CPU manager,
// memory manager, and whoever else gives resources of NUMA nodes away.
//
// In: the configuration, the machine, Pods that come, containers that run. Out: refusals of Pods,
// the CPUs and memory nodes of each container at its creation, and calls of the runtime for
// containers whose CPUs have changed.
//
// To add a manager: Config.Providers.
package containermanager
