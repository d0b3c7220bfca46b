// Package token issues and validates ServiceAccount tokens, and publishes the keys that verify
// them.
//
// A token names a ServiceAccount and, mostly, the Pod it was made for; it is good while both still
// live under the same uid. In: a signing key, further public keys, and a way to look up the objects
// a token is bound to. Out: signed JWTs, user.Info, JWKS documents. To add a kind that tokens can
// be bound to: a field in PrivateClaims and Claim, a case in Validator.bound and one in
// registry/serviceaccounts.
package token
