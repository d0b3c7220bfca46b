// Package certificates serves CertificateSigningRequests with upstream's checks.
//
// In: a request for a certificate. Out: a row that takes the place of the plain one. Who may
// approve and sign, admission says; the signer is control/certificatesigning. To add a check:
// validate.go.
package certificates
