// Package certs holds the kubelet's certificates: what it serves with, what it shows to the API
// server, and whose certificates it believes.
//
// In: files, which are read again when they change, or a client for CertificateSigningRequests,
// which are renewed before they end. Out: functions for tls.Config and for authentication that
// always give the newest; connections live on when one changes.
//
// To add a source of the serving certificate: a type with Certificate and Expiry.
package certs
