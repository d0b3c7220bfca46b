// Package noderesources refuses nodes without room for the Pod's requests (NodeResourcesFit) and
// scores by how full and how evenly filled a node would be.
//
// Requests count, limits and real use do not; allocatable counts, capacity does not.
// NodeResourcesFit scores by a strategy: LeastAllocated spreads, MostAllocated packs,
// RequestedToCapacityRatio follows a shape. NodeResourcesBalancedAllocation prefers nodes whose
// balance of resources the Pod improves.
//
// In: NodeResourcesFitArgs, NodeResourcesBalancedAllocationArgs, defaulted. Out: refusals with
// every shortfall, scores equal to upstream's formulas. Pure.
package noderesources
