// Package gangscheduling holds the Pods of a PodGroup (scheduling.k8s.io/v1beta1) back until the
// group can be complete, and says when it is. KEP-4671, KEP-5832.
//
// A Pod names its group in spec.schedulingGroup. A gang is placed in one cycle
// (scheduler/podgroupcycle.go), at least minCount Pods or none; a basic group only exists together.
// The plugin is on with the gate GenericWorkload.
//
// In: a framework.PodGroupManager. Out: statuses and texts as upstream's.
package gangscheduling
