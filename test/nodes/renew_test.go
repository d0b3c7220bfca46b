package nodes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/gantry-project/gantry/internal/kubelet/certs"
	"github.com/gantry-project/gantry/internal/pki"
)

// endsWithin is how long a certificate that is about to end is good for.
const endsWithin = 15 * time.Second

// pkiDir is where a node keeps its certificates.
func (m *machine) pkiDir() string { return filepath.Join(m.dir, "kubelet-pki") }

// nearlyEnded gives the node what it has when it asked for its network agent's certificate a while
// ago.
func (m *machine) nearlyEnded(first *machine) {
	m.lab.t.Helper()
	must := func(err error) {
		if err != nil {
			m.lab.t.Fatal(err)
		}
	}
	ca, err := tls.LoadX509KeyPair(filepath.Join(first.dir, "pki/ca.crt"), filepath.Join(first.dir, "pki/ca.key"))
	must(err)
	by, err := x509.ParseCertificate(ca.Certificate[0])
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	must(err)
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: pki.NetworkUser},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(endsWithin),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, by, key.Public(), ca.PrivateKey)
	must(err)
	must(os.MkdirAll(m.pkiDir(), 0o700))
	must(certs.SaveAgent(m.pkiDir(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM))
	file := certs.AgentFile(m.pkiDir())
	must(os.WriteFile(filepath.Join(m.dir, "network.kubeconfig"), []byte(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://`+first.ip+`:6443", certificate-authority: "`+filepath.Join(m.dir,
		"ca.crt")+`"}}]
users: [{name: u, user: {client-certificate: "`+file+`", client-key: "`+file+`"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`), 0o600))
}

// renewed: the certificate that was about to end when the node started has another in its place,
// signed by request, and time has gone beyond its end: what comes after this shows that the node's
// network agent works on.
func renewed(t *testing.T, m *machine) {
	var old time.Time
	m.lab.eventually(time.Minute, "the network agent of "+m.name+" has a new certificate", func() (string, bool) {
		list, err := cert.CertsFromFile(certs.AgentFile(m.pkiDir()))
		if err != nil {
			return err.Error(), false
		}
		return list[0].NotAfter.String(), list[0].NotAfter.Sub(list[0].NotBefore) > 24*time.Hour
	})
	files, err := filepath.Glob(filepath.Join(m.pkiDir(), "network-client-2*.pem"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files of the agent's certificates: %v %v, want no error, 2 of them", files, err)
	}
	for _, file := range files {
		list, err := cert.CertsFromFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if old.IsZero() || list[0].NotAfter.Before(old) {
			old = list[0].NotAfter
		}
	}
	m.lab.eventually(endsWithin, "the first certificate has ended",
		func() (string, bool) { return old.String(), time.Now().After(old) })
}
