package certreload

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

// CAContent is a file of certificates of authorities that sign client certificates.
type CAContent struct {
	fileReloader
	current atomic.Pointer[caBundle]
}

type caBundle struct {
	pem   []byte
	roots *x509.CertPool
}

// NewCAContent reads the file; Run follows it.
func NewCAContent(purpose, file string) (*CAContent, error) {
	a := &CAContent{}
	a.fileReloader = fileReloader{name: purpose + "::" + file, files: []string{file}, load: a.read}
	return a, a.RunOnce(context.Background())
}

func (a *CAContent) read() (bool, error) {
	pem, err := os.ReadFile(a.files[0])
	if err != nil {
		return false, err
	}
	if len(pem) == 0 {
		return false, errors.New("the file is empty")
	}
	if old := a.current.Load(); old != nil && bytes.Equal(old.pem, pem) {
		return false, nil
	}
	roots, err := cert.NewPoolFromBytes(pem)
	if err != nil {
		return false, err
	}
	a.current.Store(&caBundle{pem, roots})
	return true, nil
}

// CurrentCABundleContent is the file's content as PEM.
func (a *CAContent) CurrentCABundleContent() []byte { return a.current.Load().pem }

// VerifyOptions say whom to believe now.
func (a *CAContent) VerifyOptions() (x509.VerifyOptions, bool) {
	return x509.VerifyOptions{Roots: a.current.Load().roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		true
}

// CertKeyContent is a certificate and its key in files.
type CertKeyContent struct {
	fileReloader
	current atomic.Pointer[[2][]byte]
}

// NewCertKeyContent reads a pair; Run follows it.
func NewCertKeyContent(purpose, certFile, keyFile string) (*CertKeyContent, error) {
	p := &CertKeyContent{}
	p.fileReloader = fileReloader{name: fmt.Sprintf("%s::%s::%s", purpose, certFile, keyFile),
		files: []string{certFile, keyFile}, load: p.read}
	return p, p.RunOnce(context.Background())
}

func (p *CertKeyContent) read() (bool, error) {
	var next [2][]byte
	for i, path := range p.files {
		var err error
		if next[i], err = os.ReadFile(path); err != nil {
			return false, err
		}
	}
	if old := p.current.Load(); old != nil && bytes.Equal(old[0], next[0]) && bytes.Equal(old[1], next[1]) {
		return false, nil
	}
	if _, err := tls.X509KeyPair(next[0], next[1]); err != nil { // one of them was not written yet, perhaps
		return false, err
	}
	p.current.Store(&next)
	return true, nil
}

// CurrentCertKeyContent is certificate and key as PEM.
func (p *CertKeyContent) CurrentCertKeyContent() ([]byte, []byte) {
	now := p.current.Load()
	return now[0], now[1]
}
