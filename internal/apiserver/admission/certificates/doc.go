// Package certificates lets only who may approve or sign for a signer do so, and nobody ask for
// system:masters.
//
// In: a CertificateSigningRequest being created, approved or signed, and the authorizer. Out:
// nothing, or a refusal.
package certificates
