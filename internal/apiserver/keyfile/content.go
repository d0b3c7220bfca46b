package keyfile

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"k8s.io/client-go/util/cert"
)

// Authority is a file of certificates of authorities that sign client certificates.
type Authority struct {
	follower
	now atomic.Pointer[bundle]
}

type bundle struct {
	pem   []byte
	roots *x509.CertPool
}

// OpenAuthority reads the file; Run follows it.
func OpenAuthority(purpose, file string) (*Authority, error) {
	a := &Authority{}
	a.follower = follower{name: purpose + "::" + file, files: []string{file}, load: a.read}
	return a, a.RunOnce(context.Background())
}

func (a *Authority) read() (bool, error) {
	pem, err := os.ReadFile(a.files[0])
	if err != nil {
		return false, err
	}
	if len(pem) == 0 {
		return false, errors.New("the file is empty")
	}
	if old := a.now.Load(); old != nil && bytes.Equal(old.pem, pem) {
		return false, nil
	}
	roots, err := cert.NewPoolFromBytes(pem)
	if err != nil {
		return false, err
	}
	a.now.Store(&bundle{pem, roots})
	return true, nil
}

// CurrentCABundleContent is the file's content as PEM.
func (a *Authority) CurrentCABundleContent() []byte { return a.now.Load().pem }

// VerifyOptions say whom to believe now.
func (a *Authority) VerifyOptions() (x509.VerifyOptions, bool) {
	return x509.VerifyOptions{Roots: a.now.Load().roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
}

// Pair is a certificate and its key in files.
type Pair struct {
	follower
	now atomic.Pointer[[2][]byte]
}

// OpenPair reads a pair; Run follows it.
func OpenPair(purpose, certFile, keyFile string) (*Pair, error) {
	p := &Pair{}
	p.follower = follower{name: fmt.Sprintf("%s::%s::%s", purpose, certFile, keyFile), files: []string{certFile, keyFile}, load: p.read}
	return p, p.RunOnce(context.Background())
}

func (p *Pair) read() (bool, error) {
	var next [2][]byte
	for i, path := range p.files {
		var err error
		if next[i], err = os.ReadFile(path); err != nil {
			return false, err
		}
	}
	if old := p.now.Load(); old != nil && bytes.Equal(old[0], next[0]) && bytes.Equal(old[1], next[1]) {
		return false, nil
	}
	if _, err := tls.X509KeyPair(next[0], next[1]); err != nil { // one of them was not written yet, perhaps
		return false, err
	}
	p.now.Store(&next)
	return true, nil
}

// CurrentCertKeyContent is certificate and key as PEM.
func (p *Pair) CurrentCertKeyContent() ([]byte, []byte) {
	now := p.now.Load()
	return now[0], now[1]
}
