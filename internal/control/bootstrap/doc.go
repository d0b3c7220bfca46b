// Package bootstrap deletes expired bootstrap tokens, and signs kube-public/cluster-info with those
// for signing, so that a new node which only has a token can trust it.
//
// In: the token Secrets of kube-system, the ConfigMap cluster-info. Out: deleted Secrets,
// signatures in the ConfigMap. The rules are those of upstream's controllers token-cleaner and
// bootstrap-signer; authentication with tokens is in apiserver/auth.
package bootstrap
