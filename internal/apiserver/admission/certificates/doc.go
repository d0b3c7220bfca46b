// Package certificates has the admission plugins for CertificateSigningRequests
// (CertificateApproval, CertificateSigning, CertificateSubjectRestriction): only who may approve or
// sign for a signer does so, and nobody asks for the group system:masters.
//
// In: a CertificateSigningRequest being created, approved or signed, and the authorizer. Out:
// nothing, or a refusal.
package certificates
