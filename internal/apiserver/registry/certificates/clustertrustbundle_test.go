package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func anchor(t *testing.T, ca bool, headers map[string]string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"},
		NotAfter: time.Now().Add(time.Hour), IsCA: ca, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: headers, Bytes: der}))
}

// KEP-3257: a bundle holds authorities only, each once, and its name begins with its signer's.
func TestValidateBundle(t *testing.T) {
	ca := anchor(t, true, nil)
	for _, c := range []struct {
		name, object, signer, text, want string
	}{
		{"plain", "a", "", ca, ""},
		{"of a signer", "example.com:foo:v1", "example.com/foo", ca + anchor(t, true, nil), ""},
		{"colon without signer", "a:b", "", ca,
			`metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its ` +
				`name`},
		{"other name", "a", "example.com/foo", ca,
			"ClusterTrustBundle for signerName example.com/foo must be named with prefix example.com:foo:"},
		{"bad rest", "example.com:foo:A", "example.com/foo", ca, "a lowercase RFC 1123 subdomain"},
		{"bad signer", "foo:x", "foo", ca, "spec.signerName: Invalid value"},
		{"nothing", "a", "", "", "at least one trust anchor must be provided"},
		{"twice", "a", "", ca + ca, "duplicate trust anchor (indices [0 1])"},
		{"no authority", "a", "", ca + anchor(t, false, nil), "entry 1 does not have the CA bit set"},
		{"headers", "a", "", anchor(t, true, map[string]string{"k": "v"}), "entry 0 has PEM block headers"},
		{"a key", "a", "", strings.ReplaceAll(ca, "CERTIFICATE", "EC KEY"), "entry 0 has bad block type: EC KEY"},
		{"nonsense", "a", "", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
			"entry 0 does not parse as X.509"},
	} {
		b := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: c.object},
			Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: c.signer, TrustBundle: c.text}}
		err := append(bundleMeta(b), validateBundle(b, nil)...).ToAggregate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want an error with %q (none if empty)", c.name, err, c.want)
		}
		if err := validateBundle(b, b).ToAggregate(); err != nil && strings.Contains(err.Error(), "entry") {
			t.Errorf("%s: an unchanged bundle was validated again: %v", c.name, err)
		}
	}
	previous := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "example.com:foo:v1"},
		Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: "example.com/foo", TrustBundle: ca}}
	is := previous.DeepCopy()
	is.Spec.SignerName, is.Name = "example.com/bar", "example.com:bar:v1"
	if err := validateBundle(is, previous).ToAggregate(); err == nil || !strings.Contains(err.Error(),
		"spec.signerName: Invalid value: \"example.com/bar\": field is immutable") {
		t.Errorf(`got %v, want an error with 'spec.signerName: Invalid value: "example.com/bar": fie…'`, err)
	}
}
