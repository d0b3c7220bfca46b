// Package oidc authenticates by JSON web tokens of external issuers (OpenID Connect), which flags
// or an AuthenticationConfiguration name.
//
// In: an AuthenticationConfiguration file (apiserver.config.k8s.io), read again when it changes, or
// upstream's --oidc-* flags. Out: an authenticator of tokens, and what the file says of requests
// without credentials. The library does the checking; this package reads and swaps. To take another
// form of the configuration: nothing; the library's scheme decides which versions are read.
package oidc
