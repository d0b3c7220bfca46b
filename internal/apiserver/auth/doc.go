// Package auth builds the authenticator, the authorizer and the admission plugins of the API
// server.
//
// Authenticators: front proxy headers, client certificates, static, service account, bootstrap,
// OIDC and webhook tokens. Authorizers: system:masters, health paths, the configured chain (Node
// and RBAC by default), readers of the journal. In: Options, and the server's own client, informers
// and stores. Out: apiserver.Access. To add an authenticator: a line in authenticators.go; an
// authorizer: a line in authorizers.go.
package auth
