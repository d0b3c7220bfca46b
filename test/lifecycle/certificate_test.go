package lifecycle

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Pod with a certificate waits for its signer, and reports the signer's answer (KEP-4317).
func TestCertificates(t *testing.T) { eachRuntime(t, certificateCases) }

const certified = `volumeMounts: [{name: id, mountPath: /id}]}],
	volumes: [{name: id, projected: {sources: [{podCertificate: {signerName: example.com/life, keyType: ECDSAP256,
	credentialBundlePath: both.pem, keyPath: key.pem, certificateChainPath: chain.pem,
	userAnnotations: {example.com/for: tests}}}]}}]}`

var certificateCases = []Case{
	{
		name: "a signer issues",
		spec: `{containers: [{name: app, command: ` + runs + `, ` + certified,
		steps: func(l *podLife) {
			l.event("", "FailedMount", "waiting for signer example.com/life to answer PodCertificateRequest "+l.ns+
				"/req-p-")
			r := l.request()
			if s := r.Spec; s.PodName != "p" || s.UnverifiedUserAnnotations["example.com/for"] != "tests" ||
				*s.MaxExpirationSeconds != 86400 || string(s.PodUID) != string(l.h.last().UID) {
				l.Errorf("the request: %+v", s)
			}
			l.issue(r)
			l.ready()
			both, key, chain := l.sh("app", "cat /id/both.pem"), l.sh("app", "cat /id/key.pem"),
				l.sh("app", "cat /id/chain.pem")
			if !strings.HasPrefix(key, "-----BEGIN PRIVATE KEY-----\n") ||
				strings.TrimSpace(r.Status.CertificateChain) != chain || both != key+"\n"+chain {
				l.Errorf("key %q\nchain %q\nboth %q", key, chain, both)
			}
		},
		expected: expected{conditions: allTrue, states: map[string]string{"app": "running"}},
	},
	{
		name: "a signer says no",
		spec: `{containers: [{name: app, command: ` + runs + `, ` + certified,
		steps: func(l *podLife) {
			r := l.request()
			r.Status.Conditions = []metav1.Condition{{Type: "Denied", Status: "True", Reason: "UnsupportedKeyType",
				Message: "ask for ED25519"}}
			l.answer(r)
			l.event("", "FailedMount", "signer example.com/life denied PodCertificateRequest "+l.ns+"/"+r.Name+
				": UnsupportedKeyType: ask for ED25519")
		},
		expected: expected{phases: string(corev1.PodPending)},
	},
}

// request waits for the one that the Pod's kubelet made.
func (l *podLife) request() (r *certificatesv1.PodCertificateRequest) {
	l.Helper()
	l.eventually("a request for a certificate", func() error {
		list, err := l.client.CertificatesV1().PodCertificateRequests(l.ns).List(l.ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return errors.Join(err, errors.New("none"))
		}
		r = &list.Items[0]
		return nil
	})
	return r
}

// answer writes a signer's words.
func (l *podLife) answer(r *certificatesv1.PodCertificateRequest) {
	l.Helper()
	if _, err := l.client.CertificatesV1().PodCertificateRequests(l.ns).UpdateStatus(l.ctx, r,
		metav1.UpdateOptions{}); err != nil {
		l.Fatal(err)
	}
}

// issue signs with a CA of its own.
func (l *podLife) issue(r *certificatesv1.PodCertificateRequest) {
	l.Helper()
	csr, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		l.Fatal(err)
	}
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		l.Fatal(err)
	}
	from := time.Now().Truncate(time.Second)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, leaf, &x509.Certificate{SerialNumber: big.NewInt(2)},
		csr.PublicKey, ca)
	if err != nil {
		l.Fatal(err)
	}
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: from.Add(d)} }
	r.Status = certificatesv1.PodCertificateRequestStatus{
		Conditions:       []metav1.Condition{{Type: "Issued", Status: "True", Reason: "Issued"}},
		CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		NotBefore:        at(0), BeginRefreshAt: at(30 * time.Minute), NotAfter: at(time.Hour),
	}
	l.answer(r)
}
