// Package dramanager gives plugins ResourceClaims, DeviceClasses and devices, and writes
// allocations.
//
// Manager is the framework's SharedDRAManager over informers: what this scheduler has decided
// (pending) and written (assumed) covers what the API shows until the API shows something newer.
// bindclaims.go writes allocations and reservations and waits for devices that have to become ready
// first.
//
// In: a client, informers, dynamicresources.Plan. Out: writes of ResourceClaims, and of Pods'
// extendedResourceClaimStatus.
package dramanager
