package csrcleaner

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Requests stay while somebody may want them: a day unanswered, an hour after the answer, not
// beyond the end of their certificate.
func TestRequestExpiry(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := created.Add(3 * time.Hour)
	was := func(kind certificatesv1.RequestConditionType,
		ago time.Duration) certificatesv1.CertificateSigningRequestCondition {
		return certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: "True",
			LastUpdateTime: metav1.NewTime(now.Add(-ago))}
	}
	for _, c := range []struct {
		name       string
		conditions []certificatesv1.CertificateSigningRequestCondition
		chain      []byte
		want       time.Duration
	}{
		{"nobody has answered", nil, nil, 21 * time.Hour},
		{"approved, no signer yet", []certificatesv1.CertificateSigningRequestCondition{was("Approved", 2*time.Hour)},
			nil, 21 * time.Hour},
		{"denied", []certificatesv1.CertificateSigningRequestCondition{was("Denied", 20*time.Minute)}, nil,
			40 * time.Minute},
		{"denied long ago", []certificatesv1.CertificateSigningRequestCondition{was("Denied", 2*time.Hour)}, nil, 0},
		{"denied, nobody tells when",
			[]certificatesv1.CertificateSigningRequestCondition{{Type: "Denied", Status: "True"}}, nil, 21 * time.Hour},
		{"failed", []certificatesv1.CertificateSigningRequestCondition{was("Approved", 2*time.Hour),
			was("Failed", 50*time.Minute)}, nil, 10 * time.Minute},
		{"issued", []certificatesv1.CertificateSigningRequestCondition{was("Approved", 30*time.Minute)},
			certificate(t, now.Add(24*time.Hour)), 30 * time.Minute},
		{"issued, ends soon", []certificatesv1.CertificateSigningRequestCondition{was("Approved", 30*time.Minute)},
			certificate(t, now.Add(time.Minute)), time.Minute},
		{"issued, has run out", []certificatesv1.CertificateSigningRequestCondition{was("Approved", time.Minute)},
			certificate(t, now.Add(-time.Minute)), 0},
	} {
		r := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
		r.Status.Conditions, r.Status.Certificate = c.conditions, c.chain
		if got := TimeLeft(r, now); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	r := &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-10 * time.Minute))}}
	if got := PodRequestTimeLeft(r, now); got != 5*time.Minute {
		t.Errorf("a Pod's: %s, want %v", got, 5*time.Minute)
	}
}

// certificate is one in PEM that ends then.
func certificate(t *testing.T, end time.Time) []byte {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(nil, c, c, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
