// Package oidc takes JSON web tokens of issuers outside, named by configuration.
//
// In: an AuthenticationConfiguration file (apiserver.config.k8s.io), read again when it changes, or
// upstream's --oidc-* flags. Out: an authenticator of tokens, and what the file says of requests
// without credentials. The library does the checking; this package reads and swaps. To take another
// form of the configuration: nothing; the library's scheme decides which versions are read.
package oidc
