// Package serviceaccounts serves the token subresource of ServiceAccounts.
//
// In: a TokenRequest, and the stores of what a token can be bound to. Out: a signed token.
// To add a kind that tokens can be bound to: a case in bound_object.go and in auth/token.
package serviceaccounts
