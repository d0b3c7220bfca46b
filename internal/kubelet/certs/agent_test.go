package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/keyutil"
)

// life is that of the certificates here. The library looks at its template every few seconds, so
// that a year would be millions of looks.
const life = time.Hour

// sign makes a client certificate that lives from now on.
func sign(t *testing.T, user string, public any, ca *ecdsa.PrivateKey) []byte {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().Unix()), Subject: pkix.Name{CommonName: user},
		NotBefore: time.Now(), NotAfter: time.Now().Add(life)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, ca)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// An agent's certificate is used as it is for two thirds of its life; before it ends, one of a new
// key takes its place in the same file.
func TestAnAgentIsRenewedWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const user = "gantry-network"
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := SaveAgent(dir, sign(t, user, key.Public(), key), keyPEM); err != nil {
			t.Fatal(err)
		}
		end := func() time.Time {
			t.Helper()
			c, err := tls.LoadX509KeyPair(AgentFile(dir), AgentFile(dir))
			if err != nil {
				t.Fatal(err)
			}
			return leaf(t, &c).NotAfter
		}
		first := end()
		api := fake.NewClientset()
		var asked []*certificatesv1.CertificateSigningRequest
		api.PrependReactor("create",
			"certificatesigningrequests", func(a k8stesting.Action) (bool, runtime.Object, error) {
				r := a.(k8stesting.CreateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
				asked = append(asked, r.DeepCopy())
				parsed, err := parse(r.Spec.Request)
				if err != nil {
					t.Error(err)
					return false, nil, nil
				}
				r.Status.Certificate = sign(t, parsed.Subject.CommonName, parsed.PublicKey, key)
				r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
					{Type: certificatesv1.CertificateApproved, Status: v1.ConditionTrue}}
				return false, nil, nil
			})
		r, err := Agent(CSROptions{NodeName: "n1", Dir: dir,
			Client: func(*tls.Certificate) (kubernetes.Interface, error) { return api, nil }}, user)
		if err != nil {
			t.Fatal(err)
		}
		r.Start()
		defer func() { r.Stop(); time.Sleep(2 * life); synctest.Wait() }() // it sleeps until its next renewal
		time.Sleep(life * 2 / 3)
		synctest.Wait()
		if len(asked) > 0 || !end().Equal(first) {
			t.Errorf("after two thirds of its life: asked %d times, ends %s", len(asked), end())
		}
		time.Sleep(time.Until(first.Add(-life / 20)))
		synctest.Wait()
		if len(asked) != 1 || !end().After(first.Add(life/2)) || !r.Expiry().Equal(end()) {
			t.Fatalf("shortly before the end: asked %d times, ends %s", len(asked), end())
		}
		parsed, err := parse(asked[0].Spec.Request)
		if err != nil || parsed.Subject.CommonName != user || len(parsed.Subject.Organization) > 0 ||
			key.PublicKey.Equal(parsed.PublicKey) {
			t.Errorf("asked as %v with the first key (%v)", parsed.Subject, err)
		}
		if s := asked[0].Spec; s.SignerName != certificatesv1.KubeAPIServerClientSignerName || !slices.Equal(s.Usages,
			[]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}) {
			t.Errorf("asked %s for %v", s.SignerName, s.Usages)
		}
	})
}
