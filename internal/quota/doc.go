// Package quota computes what objects use of a ResourceQuota.
//
// In: a Pod, a claim, a Service, or any other object, which counts by number. Out: amounts by quota
// resource name, and which quotas apply to the object. Admission and the quota controller share it.
// Kinds: pods.go, claims.go and services.go; every other kind counts as count/<resource>.<group>.
package quota
