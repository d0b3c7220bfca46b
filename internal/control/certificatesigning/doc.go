// Package certificatesigning signs the certificates that approved CertificateSigningRequests ask
// for, and approves those a node makes for itself.
//
// Decide.go rules over one request; do.go watches requests and writes what was ruled. In: requests
// for kubernetes.io/kube-apiserver-client, kube-apiserver-client-kubelet and kubelet-serving, a
// certificate authority. Out: status.certificate, the condition Failed, or the condition Approved.
// To add a signer: a row in signers.
package certificatesigning
