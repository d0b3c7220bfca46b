// Package dra decides about resource claims on the node: which claims a Pod has, which drivers have
// to prepare them, and which devices a container gets (Dynamic Resource Allocation).
//
// In: Pods, ResourceClaims as the scheduler allocated them, what drivers answered. Out: Claim,
// which is what is known of one claim; names of CDI devices; allocatedResourcesStatus.
//
// The child manager calls drivers and keeps the checkpoint; state is its format; plugin is the
// drivers that have registered.
//
// https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
package dra
