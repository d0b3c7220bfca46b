// Package serviceaccounttoken keeps the tokens in Secrets of type
// kubernetes.io/service-account-token: serviceaccount-token-controller writes and deletes them,
// legacy-serviceaccount-token-cleaner-controller deletes generated ones that nobody uses.
//
// In: those Secrets, ServiceAccounts, Pods, and what signs a token. Out: token, ca.crt and
// namespace in the Secret whose annotation kubernetes.io/service-account.name names an account; the
// deletion of Secrets whose account is not there; labels that mark a token invalid. The API server
// checks tokens and writes the day of their last use.
package serviceaccounttoken
