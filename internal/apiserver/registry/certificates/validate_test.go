package certificates

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// good is a request as kubectl's documentation makes it.
const good = `-----BEGIN CERTIFICATE REQUEST-----
MIHIMHECAQAwDzENMAsGA1UEAxMEem9lMTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABGZ5sZ6sU9qX6vJ1jG9X0F3Y8xZgk5rq0dDqkq0cJ1t7f3VnqGm6Y6wqk3aH
-----END CERTIFICATE REQUEST-----
`

func TestValidate(t *testing.T) {
	csr := func(change func(*certificatesv1.CertificateSigningRequestSpec)) *certificatesv1.CertificateSigningRequest {
		c := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: []byte("x"), SignerName: "example.com/signer", Usages: []certificatesv1.KeyUsage{"client auth"},
		}}
		if change != nil {
			change(&c.Spec)
		}
		return c
	}
	short := int32(599)
	for name, c := range map[string]struct {
		change func(*certificatesv1.CertificateSigningRequestSpec)
		want   string
	}{
		"not PEM": {nil, "spec.request: Invalid value"},
		"PEM of nonsense": {func(s *certificatesv1.CertificateSigningRequestSpec) { s.Request = []byte(good) },
			"spec.request: Invalid value"},
		"no usages": {func(s *certificatesv1.CertificateSigningRequestSpec) { s.Usages = nil },
			"spec.usages: Required value"},
		"unknown usage": {func(s *certificatesv1.CertificateSigningRequestSpec) { s.Usages[0] = "fun" },
			`spec.usages[0]: Unsupported value: "fun"`},
		"usage twice": {func(s *certificatesv1.CertificateSigningRequestSpec) {
			s.Usages = append(s.Usages, "client auth")
		}, `spec.usages[1]: Duplicate value: "client auth"`},
		"no signer": {func(s *certificatesv1.CertificateSigningRequestSpec) { s.SignerName = "" },
			"spec.signerName: Required value"},
		"signer no path": {func(s *certificatesv1.CertificateSigningRequestSpec) { s.SignerName = "example.com" },
			"must be a fully qualified domain and path of the form 'example.com/signer-name'"},
		"signer one label": {func(s *certificatesv1.CertificateSigningRequestSpec) { s.SignerName = "a/b" },
			"should be a domain with at least two segments separated by dots"},
		"signer of old": {func(s *certificatesv1.CertificateSigningRequestSpec) {
			s.SignerName = "kubernetes.io/legacy-unknown"
		}, "the legacy signerName is not allowed via this API version"},
		"expires too early": {func(s *certificatesv1.CertificateSigningRequestSpec) { s.ExpirationSeconds = &short },
			"may not specify a duration less than 600 seconds (10 minutes)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := validate(csr(c.change)).ToAggregate(); got == nil || !strings.Contains(got.Error(), c.want) {
				t.Errorf("errors %v, want %q", got, c.want)
			}
		})
	}
	old := csr(nil)
	both := csr(nil)
	both.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateApproved}, {Type: certificatesv1.CertificateDenied}}
	bad := csr(nil)
	bad.Status.Certificate = []byte("x")
	for want, now := range map[string]*certificatesv1.CertificateSigningRequest{
		"must specify at most one of":                     both,
		"must contain at least one CERTIFICATE PEM block": bad,
	} {
		if got := validateStatus(now, old, false).ToAggregate(); got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("errors %v, want %q", got, want)
		}
	}
}
