// Package pki maintains the cluster's credentials: certificate authorities, certificates, the key
// that signs service account tokens, and kubeconfigs.
//
// Files are created once, renewed in time, and never replaced when damaged. In: a directory, the
// names of API server and node. Out: paths of PEM files. To add a certificate: one row in
// leafCertificates (leafcerts.go) and a field in Files.
package pki
