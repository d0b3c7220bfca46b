package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/util/cert"

	"github.com/gantry-project/gantry/test/expect"
)

// self writes a self-signed pair for host and returns its certificate.
func self(t *testing.T, dir, host string) []byte {
	t.Helper()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"tls.key": keyPEM, "tls.crt": certPEM} {
		next := filepath.Join(dir, name+".next")
		if err := os.WriteFile(next, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return certPEM
}

func leaf(t *testing.T, c *tls.Certificate) *x509.Certificate {
	t.Helper()
	x, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// row: SEC-08
func TestPairIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	self(t, dir, "one")
	p, err := FromFiles(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	defer func() { stop(); <-done }()
	name := func() string {
		c, err := p.Certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return leaf(t, c).DNSNames[0]
	}
	if name() != "one" || p.Expiry().Before(time.Now()) {
		t.Errorf("got %v, %v, want name() one and p.Expiry() not before %v", name(), p.Expiry(), time.Now())
	}
	expect.Eventually(t, "the new certificate is served", func() bool { self(t, dir, "two"); return name() == "two" })
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if name() != "two" {
		t.Error("a broken file ends serving")
	}
}

func TestNoPair(t *testing.T) {
	if _, err := FromFiles("/nowhere/tls.crt", "/nowhere/tls.key"); err == nil {
		t.Error("files that are not there are fine")
	}
	if _, err := AuthorityFile("/nowhere/ca.crt"); err == nil {
		t.Error("a CA that is not there is fine")
	}
}

func TestClientCAIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(file, self(t, dir, "ca"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := AuthorityFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if pool, ok := a.Pool(); !ok || pool == nil {
		t.Errorf("got client authorities %v, %t, want some", pool != nil, ok)
	}
}

func TestServingTemplate(t *testing.T) {
	if servingTemplate("n1", nil) != nil {
		t.Error("a certificate for no address is asked for")
	}
	r := servingTemplate("n1", []v1.NodeAddress{{Address: "10.0.0.2"}, {Address: "10.0.0.1"}, {Address: "n1"},
		{Address: "n1"}, {Address: "10.0.0.2"}})
	if r.Subject.CommonName != "system:node:n1" || !slices.Equal(r.Subject.Organization, []string{"system:nodes"}) ||
		len(r.IPAddresses) != 2 || r.IPAddresses[0].String() != "10.0.0.1" || !slices.Equal(r.DNSNames,
		[]string{"n1"}) {
		t.Errorf("got %+v, want CommonName system:node:n1, Organization %v, 2 in IPAddresses, IPAddresses[0] "+
			"10.0.0.1 and DNSNames %v", r, []string{"system:nodes"}, []string{"n1"})
	}
}

// A request is made with the signer's usages; what is signed is served and kept.
//
// row: SEC-08
func TestServingIsRequested(t *testing.T) {
	api := fake.NewClientset()
	dir := t.TempDir()
	q := CSROptions{
		NodeName: "n1", Dir: dir, Client: func(*tls.Certificate) (kubernetes.Interface, error) { return api, nil },
		Addresses: func() []v1.NodeAddress { return []v1.NodeAddress{{Address: "10.0.0.1"}} },
	}
	r, err := Serving(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Certificate(nil); err == nil || r.HasCertificate() || !r.Expiry().IsZero() {
		t.Errorf("served before it is signed: got %v, certificate %t, expiry %v, want an error and neither", err,
			r.HasCertificate(), r.Expiry())
	}
	r.Start()
	defer r.Stop()
	var asked *certificatesv1.CertificateSigningRequest
	expect.Eventually(t, "a request is made", func() bool {
		list, err := api.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) > 0 {
			asked = &list.Items[0]
		}
		return asked != nil
	})
	if asked.Spec.SignerName != certificatesv1.KubeletServingSignerName || !slices.Equal(asked.Spec.Usages,
		[]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}) {
		t.Errorf("got %+v, want SignerName KubeletServingSignerName and Equal true", asked.Spec)
	}
	if _, err := parse(asked.Spec.Request); err != nil {
		t.Error(err)
	}
}

func parse(raw []byte) (*x509.CertificateRequest, error) {
	b, _ := pem.Decode(raw)
	if b == nil {
		return nil, errors.New("no PEM")
	}
	return x509.ParseCertificateRequest(b.Bytes)
}

// The certificate a node came with is kept where client-go reads it, until the renewed one takes
// its place.
func TestClientBegins(t *testing.T) {
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("system:node:n1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Client(CSROptions{NodeName: "n1", Dir: t.TempDir(), CertPEM: certPEM, KeyPEM: keyPEM,
		Client: func(*tls.Certificate) (kubernetes.Interface, error) { return fake.NewClientset(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	if !r.HasCertificate() {
		t.Error("the first certificate is not used")
	}
	if _, err := tls.LoadX509KeyPair(r.Path(), r.Path()); err != nil {
		t.Error(err)
	}
}
