// Package certificatesigning signs approved CertificateSigningRequests, and approves those that
// nodes create for themselves.
//
// decide.go decides about one request; controller.go watches requests and writes. In: requests for
// kubernetes.io/kube-apiserver-client, kube-apiserver-client-kubelet and kubelet-serving, a
// certificate authority. Out: status.certificate, the condition Failed, or the condition Approved.
// To add a signer: a row in signers.
package certificatesigning
