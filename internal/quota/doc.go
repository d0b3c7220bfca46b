// Package quota says what objects use of a ResourceQuota.
//
// In: a Pod, a claim, a Service, or any other object by its number. Out: the amounts under their
// names in quotas, and which quotas are about the object. Admission adds with it, the quota
// controller counts anew with it. What an object uses is in pods.go, claims.go and services.go;
// every other kind counts by number (count/<resource>.<group>).
package quota
