package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// pending is a good request for a key.
func pending(t *testing.T, key crypto.Signer) *certificatesv1.PodCertificateRequest {
	t.Helper()
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "req"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/x", PodName: "p", PodUID: "1", ServiceAccountName: "default",
			ServiceAccountUID: "2", NodeName: "node", NodeUID: "3",
			MaxExpirationSeconds: new(int32(86400)), StubPKCS10Request: stub,
		},
	}
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// What a kubelet asks for is checked, the proof that it holds the key above all.
func TestPodRequests(t *testing.T) {
	key := newKey(t)
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edit func(*certificatesv1.PodCertificateRequestSpec)
		want string
	}{
		"good": {func(*certificatesv1.PodCertificateRequestSpec) {}, ""},
		"no signer": {func(s *certificatesv1.PodCertificateRequestSpec) { s.SignerName = "" },
			"spec.signerName: Required value"},
		"no Pod": {func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName = "" },
			`spec.podName: Invalid value: ""`},
		"bad Pod": {func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName = "A" },
			"spec.podName: Invalid value"},
		"no UID": {func(s *certificatesv1.PodCertificateRequestSpec) { s.PodUID = "" },
			`spec.podUID: Invalid value: "": must not be empty`},
		"long UID": {func(s *certificatesv1.PodCertificateRequestSpec) {
			s.NodeUID += types.UID(strings.Repeat("x", 132))
		}, "spec.nodeUID: Too long"},
		"no account": {func(s *certificatesv1.PodCertificateRequestSpec) { s.ServiceAccountName = "" },
			`spec.serviceAccountName: Invalid value: ""`},
		"no life": {func(s *certificatesv1.PodCertificateRequestSpec) { s.MaxExpirationSeconds = new(int32(60)) },
			"must be in the range [3600, 7862400]"},
		"no key": {func(s *certificatesv1.PodCertificateRequestSpec) { s.StubPKCS10Request = nil },
			"spec: Invalid value: exactly one of (stubPKCS10Request)"},
		"much": {func(s *certificatesv1.PodCertificateRequestSpec) { s.StubPKCS10Request = make([]byte, 10<<10+1) },
			"spec.stubPKCS10Request: Too long: may not be more than 10240 bytes"},
		"nonsense": {func(s *certificatesv1.PodCertificateRequestSpec) { s.StubPKCS10Request = []byte("x") },
			"must be a valid PKCS#10 CSR"},
		"a small key": {func(s *certificatesv1.PodCertificateRequestSpec) {
			s.StubPKCS10Request = pending(t, small).Spec.StubPKCS10Request
		}, "elliptic public keys must use curve P256, P384, or P521"},
		"a broken proof": {func(s *certificatesv1.PodCertificateRequestSpec) {
			s.StubPKCS10Request[len(s.StubPKCS10Request)-1] ^= 1
		}, "invalid signature"},
		"a bare word": {func(s *certificatesv1.PodCertificateRequestSpec) {
			s.UnverifiedUserAnnotations = map[string]string{"a": ""}
		}, "must be a domain-prefixed key"},
	} {
		r := pending(t, key)
		c.edit(&r.Spec)
		if got := validatePodRequest(r).ToAggregate(); c.want == "" && got != nil ||
			c.want != "" && (got == nil || !strings.Contains(got.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	r := pending(t, key)
	changed := r.DeepCopy()
	changed.Spec.PodName = "q"
	if errs := validatePodRequestUpdate(changed, r); len(errs) == 0 {
		t.Error("a request changes")
	}
}

// A signer says one last word; a certificate has the key that was asked for and the times that
// be set beside it.
func TestAnswersToPodRequests(t *testing.T) {
	key := newKey(t)
	chain := func(key crypto.Signer, from time.Time, life time.Duration, names ...string) string {
		c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(life), DNSNames: names}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }
	word := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: "True", Reason: "Because", LastTransitionTime: metav1.NewTime(noon)}
	}
	type status = certificatesv1.PodCertificateRequestStatus
	for name, c := range map[string]struct {
		edit func(*status)
		want string
	}{
		"issued": {func(*status) {}, ""},
		"denied": {func(s *status) { *s = status{Conditions: []metav1.Condition{word("Denied")}} }, ""},
		"failed": {func(s *status) { *s = status{Conditions: []metav1.Condition{word("Failed")}} }, ""},
		"denied, yet here": {func(s *status) { s.Conditions[0].Type = "Denied" },
			"status: Invalid value: non-condition status fields must be empty"},
		"two words": {func(s *status) { s.Conditions = append(s.Conditions, word("Denied")) },
			"There may be at most one condition"},
		"a strange word": {func(s *status) { s.Conditions[0].Type = "Approved" }, "Unsupported value: \"Approved\""},
		"not true": {func(s *status) { s.Conditions[0].Status = "False" },
			"status.conditions.[0].status: Unsupported value"},
		"another key": {func(s *status) { s.CertificateChain = chain(newKey(t), noon, 24*time.Hour) },
			"leaf certificate was not issued to the requested public key"},
		"a strange name": {
			func(s *status) { s.CertificateChain = chain(key, noon, 24*time.Hour, "ok.example", "a..example") },
			`"a..example": leaf certificate's DNSName should not contain`},
		"much": {func(s *status) { s.CertificateChain += strings.Repeat("#", 100<<10) },
			"status.certificateChain: Too long: may not be more than 102400 bytes"},
		"no chain": {func(s *status) { s.CertificateChain = "" },
			"issued certificate chain must contain at least one certificate"},
		"a key in it": {
			func(s *status) { s.CertificateChain += "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n" },
			"must consist entirely of CERTFICATE PEM blocks"},
		"other times":  {func(s *status) { s.NotAfter = at(23 * time.Hour) }, "status.notAfter: Invalid value"},
		"no beginning": {func(s *status) { s.NotBefore = nil }, "status.notBefore: Required value"},
		"no refresh":   {func(s *status) { s.BeginRefreshAt = nil }, "status.beginRefreshAt: Required value"},
		"late refresh": {func(s *status) { s.BeginRefreshAt = at(24*time.Hour - time.Minute) },
			"status.beginRefreshAt: Invalid value"},
		"too long": {
			func(s *status) { s.CertificateChain, s.NotAfter = chain(key, noon, 25*time.Hour), at(25*time.Hour) },
			"leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)"},
		"an old clock": {func(s *status) {
			s.CertificateChain, s.NotBefore, s.NotAfter = chain(key, noon.Add(-time.Hour), 24*time.Hour),
				at(-time.Hour), at(23*time.Hour)
		}, "must be set to within 5 minutes of kube-apiserver's current time"},
	} {
		old := pending(t, key)
		r := old.DeepCopy()
		r.Status = status{Conditions: []metav1.Condition{word("Issued")},
			CertificateChain: chain(key, noon, 24*time.Hour), NotBefore: at(0), BeginRefreshAt: at(12 * time.Hour),
			NotAfter: at(24 * time.Hour)}
		c.edit(&r.Status)
		if got := validatePodRequestStatus(r, old, noon).ToAggregate(); c.want == "" && got != nil ||
			c.want != "" && (got == nil || !strings.Contains(got.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", name, got, c.want)
			continue
		}
		if c.want != "" {
			continue
		}
		if errs := validatePodRequestStatus(r, r, noon.Add(time.Hour)); len(errs) != 0 {
			t.Errorf("%s: it may not stay: %v, want none", name, errs)
		}
		if errs := validatePodRequestStatus(old, r, noon); len(errs) == 0 {
			t.Errorf("%s: the last word is taken back", name)
		}
	}
}
