// Package auth joins authentication and authorization into what the API server asks: who is this,
// and may they.
//
// Certificates, service-account tokens, static tokens and front proxies say who; system:masters,
// health paths, the node index and RBAC say whether. In: options, and the server's own client,
// informers and stores. Out: apiserver.Access. To add a way to prove who one is: a line in
// authenticators.go. To add an authorizer: a line in authorizers.go.
package auth
