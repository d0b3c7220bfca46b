// Package resourceclaim creates the ResourceClaims that Pods get from templates, maintains their
// users, and deallocates and deletes unused ones.
//
// A Pod with templates is not scheduled before its claims exist. In: Pods, templates, claims. Out:
// claims, Pods' resourceClaimStatuses, claims' reservedFor and allocation. decide.go decides, do.go
// reads and writes. KEP-4381.
package resourceclaim
