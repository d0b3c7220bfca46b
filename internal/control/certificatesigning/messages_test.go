package certificatesigning

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Why an approved request can never be signed, in whole; the same requests are not approved
// automatically.
func TestWhyARequestFails(t *testing.T) {
	client := usagesOf(certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature)
	server := usagesOf(certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature)
	const user = "system:node:n1"
	mail, ips, uris := []string{"a@b.c"}, []net.IP{net.ParseIP("10.0.0.1")}, []*url.URL{{Scheme: "https", Host: "a"}}
	masters := pkix.Name{CommonName: user, Organization: []string{"system:masters"}}
	both := pkix.Name{CommonName: user, Organization: []string{"system:nodes", "system:masters"}}
	zoe := pkix.Name{CommonName: "zoe", Organization: []string{"system:nodes"}}
	for name, c := range map[string]struct {
		csr  csrCase
		want string
	}{
		"a node": {csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: node()}, usages: client}, ""},
		"its address": {csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: node(), IPAddresses: ips},
			usages: client}, "IP subjectAltNames are not allowed"},
		"its name": {csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: node(),
			DNSNames: []string{"n1"}}, usages: client}, "DNS subjectAltNames are not allowed"},
		"its mail": {csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: node(), EmailAddresses: mail},
			usages: client}, "email subjectAltNames are not allowed"},
		"its URI": {csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: node(), URIs: uris},
			usages: client}, "URI subjectAltNames are not allowed"},
		"of another group": {csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: masters},
			usages: client}, "subject organization is not system:nodes"},
		"of two groups": {csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: both}, usages: client},
			"subject organization is not system:nodes"},
		"of another name": {csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: zoe}, usages: client},
			"subject common name does not begin with system:node:"},
		"to serve with": {csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: node()}, usages: server},
			"usages did not match [client auth digital signature key encipherment]"},
		"a server": {csrCase{signer: serving, request: x509.CertificateRequest{Subject: node(), IPAddresses: ips},
			usages: server, user: user}, ""},
		"a server by name": {csrCase{signer: serving, request: x509.CertificateRequest{Subject: node(),
			DNSNames: []string{"n1"}}, usages: server, user: user}, ""},
		"another's server": {csrCase{signer: serving, request: x509.CertificateRequest{Subject: node(),
			IPAddresses: ips}, usages: server, user: "system:node:n2"},
			"subject common name does not match the requesting user"},
		"a server nowhere": {csrCase{signer: serving, request: x509.CertificateRequest{Subject: node()}, usages: server,
			user: user}, "DNS or IP subjectAltName is required"},
		"a server's mail": {csrCase{signer: serving, request: x509.CertificateRequest{Subject: node(), IPAddresses: ips,
			EmailAddresses: mail}, usages: server, user: user}, "email subjectAltNames are not allowed"},
		"a server's URI": {csrCase{signer: serving, request: x509.CertificateRequest{Subject: node(), IPAddresses: ips,
			URIs: uris}, usages: server, user: user}, "URI subjectAltNames are not allowed"},
		"a server of another group": {csrCase{signer: serving, request: x509.CertificateRequest{Subject: masters,
			IPAddresses: ips}, usages: server, user: user}, "subject organization is not system:nodes"},
		"a server to ask with": {csrCase{signer: serving, request: x509.CertificateRequest{Subject: node(),
			IPAddresses: ips}, usages: client, user: user},
			"usages did not match [server auth digital signature key encipherment]"},
		"a user": {csrCase{signer: "kubernetes.io/kube-apiserver-client", usages: client}, ""},
		"a user to serve with": {csrCase{signer: "kubernetes.io/kube-apiserver-client", usages: server},
			"invalid usage for client certificate: server auth"},
		"a user for nothing": {csrCase{signer: "kubernetes.io/kube-apiserver-client",
			usages: usagesOf(certificatesv1.UsageKeyEncipherment)},
			"missing required usage for client certificate: client auth"},
	} {
		r := c.csr.object(t)
		automatic := Decide(r, time.Time{})
		if want := c.want == "" && c.csr.signer == kubelet; (automatic.Approve != "") != want || automatic.Fail != "" ||
			automatic.Sign != nil {
			t.Errorf("%s, not approved: got %+v, approved automatically: want %t", name, automatic, want)
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateApproved}}
		got := Decide(r, time.Time{})
		if got.Fail != c.want || (got.Sign != nil) != (c.want == "") || got.Approve != "" {
			t.Errorf("%s: got %+v, want %q", name, got, c.want)
		}
		r.Status.Certificate = []byte("x")
		if got := Decide(r, time.Time{}); got != (Decision{}) {
			t.Errorf("%s, signed: got %+v, want nothing to do", name, got)
		}
	}
}

// What is no request fails once it is approved, and is left alone before.
func TestRequestsThatCannotBeRead(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: node()}, key)
	if err != nil {
		t.Fatal(err)
	}
	forged := slices.Clone(der)
	forged[len(forged)-1] ^= 1
	block := func(kind string, data []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}) }
	_, unreadable := x509.ParseCertificateRequest([]byte("x"))
	const noBlock = "PEM block type must be CERTIFICATE REQUEST"
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"no PEM":        {[]byte("x"), noBlock},
		"another block": {block("CERTIFICATE", der), noBlock},
		"no request":    {block("CERTIFICATE REQUEST", []byte("x")), "unable to parse csr " + unreadable.Error()},
		"forged": {block("CERTIFICATE REQUEST", forged),
			"the request is not signed by its own key: x509: Ed25519 verification failure"},
		"a request": {block("CERTIFICATE REQUEST", der), ""},
	} {
		r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: kubelet, Request: c.raw, Username: "system:node:n1",
			Usages: usagesOf(certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature)}}
		if got := Decide(r, time.Time{}); (got.Approve != "") != (c.want == "") || got.Fail != "" {
			t.Errorf("%s, not approved: got %+v", name, got)
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateApproved}}
		if got := Decide(r, time.Time{}); got.Fail != c.want {
			t.Errorf("%s: got %q, want %q", name, got.Fail, c.want)
		}
	}
	want := []string{"kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet",
		"kubernetes.io/kubelet-serving"}
	if got := signerNames(); !slices.Equal(got, want) {
		t.Errorf("signers: got %q, want %q", got, want)
	}
}

// Lifetimes at their bounds.
func TestLifetimes(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for seconds, want := range map[int32]time.Duration{1: 10 * time.Minute, 599: 10 * time.Minute,
		600: 10 * time.Minute, 601: 601 * time.Second, 31535999: 31535999 * time.Second, 31536000: 365 * 24 * time.Hour,
		31536001: 365 * 24 * time.Hour} {
		d := Decide(csrCase{signer: client, usages: usagesOf(certificatesv1.UsageClientAuth), seconds: seconds,
			state: []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved}}.object(t), now)
		if d.Sign == nil || !d.Sign.NotAfter.Equal(now.Add(want)) || !d.Sign.NotBefore.Equal(now.Add(-5*time.Minute)) ||
			len(d.Sign.Usages) != 1 {
			t.Errorf("%d seconds: got %+v, want %s", seconds, d.Sign, want)
		}
	}
}
