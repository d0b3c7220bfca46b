package certificatesigning

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

const (
	client  = certificatesv1.KubeAPIServerClientSignerName
	kubelet = certificatesv1.KubeAPIServerClientKubeletSignerName
	serving = certificatesv1.KubeletServingSignerName
)

type csrCase struct {
	signer  string
	request x509.CertificateRequest
	usages  []certificatesv1.KeyUsage
	user    string
	seconds int32
	state   []certificatesv1.RequestConditionType
}

func (w csrCase) object(t testing.TB) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &w.request, key)
	if err != nil {
		t.Fatal(err)
	}
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: w.signer, Usages: w.usages, Username: w.user,
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
	if w.seconds != 0 {
		r.Spec.ExpirationSeconds = &w.seconds
	}
	for _, s := range w.state {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: s})
	}
	return r
}

func node() pkix.Name {
	return pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}
}

func usagesOf(u ...certificatesv1.KeyUsage) []certificatesv1.KeyUsage { return u }

func TestDecide(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	approved := []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved}
	clientUse := usagesOf(certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment,
		certificatesv1.UsageClientAuth)
	serverUse := usagesOf(certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature)
	ip := []net.IP{net.ParseIP("10.0.0.1")}
	cases := []struct {
		name string
		csr  csrCase
		want string // sign, approve WHAT, fail TEXT, nothing
		life time.Duration
	}{
		{"not approved", csrCase{signer: client, usages: clientUse}, "nothing", 0},
		{"client", csrCase{signer: client, request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "zoe"}},
			usages: clientUse, state: approved}, "sign", maxDuration},
		{"client for an hour", csrCase{signer: client, usages: clientUse, seconds: 3600, state: approved},
			"sign", time.Hour},
		{"client for a minute", csrCase{signer: client, usages: clientUse, seconds: 60, state: approved},
			"sign", minDuration},
		{"client with server auth", csrCase{signer: client, usages: usagesOf(certificatesv1.UsageServerAuth),
			state: approved}, "fail invalid usage", 0},
		{"client without client auth", csrCase{signer: client, usages: usagesOf(certificatesv1.UsageDigitalSignature),
			state: approved}, "fail missing required usage", 0},
		{"denied", csrCase{signer: client, usages: clientUse,
			state: append(approved, certificatesv1.CertificateDenied)}, "nothing", 0},
		{"failed before",
			csrCase{signer: client, usages: clientUse, state: append(approved, certificatesv1.CertificateFailed)},
			"nothing", 0},
		{"another signer", csrCase{signer: "example.com/x", usages: clientUse, state: approved}, "nothing", 0},
		{"node by itself", csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: node()},
			usages: clientUse, user: "system:node:n1"}, "approve selfnodeclient", 0},
		{"node by a bootstrapper", csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: node()},
			usages: clientUse, user: "system:bootstrap:x"}, "approve nodeclient", 0},
		{"node with a name more",
			csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: node(), DNSNames: []string{"x"}},
				usages: clientUse, state: approved}, "fail DNS subjectAltNames are not allowed", 0},
		{"not a node",
			csrCase{signer: kubelet,
				request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "zoe",
					Organization: []string{"system:nodes"}}}, usages: clientUse, state: approved},
			"fail subject common name does not begin with system:node:", 0},
		{"master", csrCase{signer: kubelet,
			request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1",
				Organization: []string{"system:masters"}}}, usages: clientUse, state: approved},
			"fail subject organization is not system:nodes", 0},
		{"serving", csrCase{signer: serving, request: x509.CertificateRequest{Subject: node(), IPAddresses: ip},
			usages: serverUse, user: "system:node:n1", state: approved}, "sign", maxDuration},
		{"serving is not approved unseen",
			csrCase{signer: serving, request: x509.CertificateRequest{Subject: node(), IPAddresses: ip},
				usages: serverUse, user: "system:node:n1"}, "nothing", 0},
		{"serving without address", csrCase{signer: serving, request: x509.CertificateRequest{Subject: node()},
			usages: serverUse, user: "system:node:n1", state: approved},
			"fail DNS or IP subjectAltName is required", 0},
		{"serving for another",
			csrCase{signer: serving, request: x509.CertificateRequest{Subject: node(), IPAddresses: ip},
				usages: serverUse, user: "system:node:n2", state: approved},
			"fail subject common name does not match", 0},
		{"serving as client",
			csrCase{signer: serving, request: x509.CertificateRequest{Subject: node(), IPAddresses: ip},
				usages: clientUse, user: "system:node:n1", state: approved}, "fail usages did not match", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := Decide(c.csr.object(t), now)
			got := "nothing"
			switch {
			case r.Sign != nil:
				got = "sign"
				if life := r.Sign.NotAfter.Sub(now); life != c.life {
					t.Errorf("life %v, want %v", life, c.life)
				}
			case r.Fail != "":
				got = "fail " + r.Fail
			case r.Approve != "":
				got = "approve " + r.Approve
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func FuzzDecide(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"))
	f.Add(csrCase{signer: kubelet, request: x509.CertificateRequest{Subject: node()}}.object(f).Spec.Request)
	f.Fuzz(func(_ *testing.T, raw []byte) {
		r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: kubelet, Request: raw}}
		Decide(r, time.Time{})
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateApproved}}
		Decide(r, time.Time{})
	})
}

// authority writes a certificate authority.
func authority(t *testing.T) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	kder, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "EC PRIVATE KEY", Bytes: kder}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestRunApprovesAndSigns(t *testing.T) {
	cert, key := authority(t)
	r := csrCase{
		signer: kubelet, request: x509.CertificateRequest{Subject: node()}, user: "system:node:n1",
		usages: usagesOf(certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth),
	}.object(t)
	c := fake.NewSimpleClientset(r)
	c.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		s.Status.Allowed = s.Spec.ResourceAttributes.Subresource == "selfnodeclient"
		return true, s, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	f := informers.NewSharedInformerFactory(c, 0)
	o := Options{Client: c, Informer: f.Certificates().V1().CertificateSigningRequests(), Cert: cert, Key: key}
	o.Informer.Informer()
	f.Start(ctx.Done())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	deadline := time.Now().Add(time.Minute)
	for {
		got, err := c.CertificatesV1().CertificateSigningRequests().Get(ctx, "r", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Status.Certificate) > 0 {
			block, _ := pem.Decode(got.Status.Certificate)
			made, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if made.Subject.CommonName != "system:node:n1" || len(made.ExtKeyUsage) != 1 ||
				made.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth || made.IsCA {
				t.Errorf("certificate %+v", made.Subject)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not signed: %+v", got.Status)
		}
		<-time.After(5 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
