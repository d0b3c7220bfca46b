// Package webhook authenticates and authorizes by webhooks (TokenReview, SubjectAccessReview),
// which a kubeconfig or an AuthorizationConfiguration names.
//
// In: upstream's flags and files (apiserver.config.k8s.io), the authorizers inside this process.
// Out: an authenticator of tokens and a chain of authorizers that is built anew when its file
// changes. To add a type of authorizer: an entry in the map handed to NewAuthorizer.
package webhook
