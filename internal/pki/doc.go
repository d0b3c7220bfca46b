// Package pki keeps the files that prove who is who: certificate authorities, certificates, the key
// that signs service-account tokens, and the kubeconfigs that carry them.
//
// Files are made once, renewed in time, and never silently replaced when damaged.
// In: a directory and what the API server and the node are called. Out: paths of PEM files.
// To add a certificate: one row in leaves (leaves.go) and a field in Files.
package pki
