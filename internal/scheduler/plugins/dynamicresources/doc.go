// Package dynamicresources keeps Pods with resource claims to nodes where devices for all their
// claims are to be had, and gives the claims those devices.
//
// KEP-4381 and what builds on it: admin access, prioritized lists, partitionable devices, taints,
// consumable capacity, binding conditions, extended resources served by device classes. Which
// devices a node can give is worked out by k8s.io/dynamic-resource-allocation; this package asks it
// node by node and explains a refusal with numbers. From a manager that is a NodePools it learns at
// which nodes devices changed, and asks again only there for Pods whose claims look the same
// (nodecache.go); pools.go has the pools by node. Pure: claims, slices and classes come through
// framework.SharedDRAManager, ClaimWriter writes.
//
// In: a Pod, a node, claims, device classes, resource slices. Out: statuses, scores by how early in
// prioritized lists the choices stand, a Plan for ClaimWriter. To add a feature of the allocator: a
// field in allocatorFeatures.
package dynamicresources
