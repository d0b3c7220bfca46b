// Package resourceclaim makes the ResourceClaims that Pods get from templates, keeps who uses a
// claim true, and takes devices and claims back when nobody does.
//
// A Pod from a template waits for its claims before it is judged. In: Pods, templates, claims. Out:
// claims, Pods' resourceClaimStatuses, claims' reservedFor and allocation. decide.go rules, do.go
// reads and writes. KEP-4381.
package resourceclaim
