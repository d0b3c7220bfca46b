// Package serviceaccount gives every Pod an identity and the files to prove it with.
//
// In: a Pod being created, its ServiceAccount. Out: serviceAccountName, a projected volume with
// token, CA and namespace mounted in every container, image pull secrets; a refusal when the
// account is not there or the Pod is a mirror of a static one and wants one.
package serviceaccount
