// Package bootstrap takes away bootstrap tokens that have run out, and signs
// kube-public/cluster-info with those that may sign, so that a new node which knows only a token
// can trust what it reads there.
//
// In: the token Secrets of kube-system, the ConfigMap cluster-info. Out: deleted Secrets,
// signatures in the ConfigMap. The rules are upstream's controllers token-cleaner and
// bootstrap-signer; who comes in with a token is auth/token's to say.
package bootstrap
