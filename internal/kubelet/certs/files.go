package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// Pair is a certificate and its key in files.
type Pair struct {
	content *dynamiccertificates.DynamicCertKeyPairContent

	mu        sync.Mutex
	cert, key []byte
	parsed    *tls.Certificate
}

// FromFiles reads a pair; an error says which file is no good.
func FromFiles(certFile, keyFile string) (*Pair, error) {
	c, err := dynamiccertificates.NewDynamicServingContentFromFiles("kubelet-serving", certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("serving certificate %s with key %s: %w", certFile, keyFile, err)
	}
	p := &Pair{content: c}
	if _, err := p.Certificate(nil); err != nil {
		return nil, err
	}
	return p, nil
}

// Run reads the files again when they change, until ctx ends. A pair that does not fit together
// leaves the old one in use.
func (p *Pair) Run(ctx context.Context) { p.content.Run(ctx, 1) }

// Certificate is tls.Config.GetCertificate.
func (p *Pair) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, key := p.content.CurrentCertKeyContent()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.parsed != nil && bytes.Equal(cert, p.cert) && bytes.Equal(key, p.key) {
		return p.parsed, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	p.cert, p.key, p.parsed = cert, key, &pair
	return p.parsed, nil
}

// Expiry is when the certificate ends; zero when there is none.
func (p *Pair) Expiry() time.Time {
	c, err := p.Certificate(nil)
	if err != nil {
		return time.Time{}
	}
	return expiry(c)
}

func expiry(c *tls.Certificate) time.Time {
	if c == nil {
		return time.Time{}
	}
	if c.Leaf != nil {
		return c.Leaf.NotAfter
	}
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		return time.Time{}
	}
	return leaf.NotAfter
}

// Authority is a file of certificates of authorities.
type Authority struct {
	content *dynamiccertificates.DynamicFileCAContent
}

// AuthorityFile reads the file.
func AuthorityFile(file string) (*Authority, error) {
	c, err := dynamiccertificates.NewDynamicCAContentFromFile("kubelet-client-ca", file)
	if err != nil {
		return nil, fmt.Errorf("authorities of client certificates: %w", err)
	}
	return &Authority{c}, nil
}

// Run reads the file again when it changes, until ctx ends.
func (a *Authority) Run(ctx context.Context) { a.content.Run(ctx, 1) }

// Pool is whom to believe now.
func (a *Authority) Pool() (*x509.CertPool, bool) {
	o, ok := a.content.VerifyOptions()
	return o.Roots, ok
}
