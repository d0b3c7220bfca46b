// Package serviceaccount is the admission plugin ServiceAccount: it sets the ServiceAccount of a
// Pod, its image pull secrets, and the projected volume with its token.
//
// In: a Pod being created, its ServiceAccount. Out: serviceAccountName, a projected volume with
// token, CA and namespace mounted in every container, image pull secrets; a refusal when the
// account is not there or the Pod is a mirror of a static one and wants one.
package serviceaccount
