package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"time"
)

// authority is a certificate authority with its key.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// ensureAuthority returns the authority stored as name.crt and name.key. The key survives renewals
// of the certificate; a key without certificate (an interrupted first start) gets one; a
// certificate without its key is an error.
func ensureAuthority(dir, name, commonName string, now time.Time) (*authority, error) {
	certPath, keyPath := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	remedy := fmt.Sprintf("restore it from a backup, or delete %s and %s to start with a new authority (kubeconfigs "+
		"copied elsewhere stop working)", certPath, keyPath)
	key, err := readKey(keyPath, remedy)
	if err != nil {
		return nil, err
	}
	cert, err := readCert(certPath, remedy)
	if err != nil {
		return nil, err
	}
	switch {
	case key == nil && cert != nil:
		return nil, fmt.Errorf("%s is missing while %s is there: %s", keyPath, certPath, remedy)
	case key == nil:
		if key, err = newKey(keyPath); err != nil {
			return nil, err
		}
	case cert != nil && !matchesKey(cert, key):
		return nil, fmt.Errorf("%s does not belong to %s: %s", keyPath, certPath, remedy)
	}
	if cert == nil || now.Before(cert.NotBefore) || expiresSoon(cert, now) {
		template := &x509.Certificate{
			Subject: pkix.Name{CommonName: commonName}, DNSNames: []string{commonName},
			KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
			BasicConstraintsValid: true, IsCA: true, SubjectKeyId: keyID(key.Public()),
		}
		setValidity(template, now, authorityLife)
		if cert, err = issue(certPath, template, &authority{template, key}, key.Public()); err != nil {
			return nil, err
		}
	}
	return &authority{cert, key}, nil
}

// ensureLeaf creates or renews name.crt and name.key. A pair that does not match is left from an
// interrupted renewal and made anew.
func ensureLeaf(dir string, l leaf, by *authority, now time.Time) error {
	certPath, keyPath := filepath.Join(dir, l.name+".crt"), filepath.Join(dir, l.name+".key")
	remedy := fmt.Sprintf("delete %s and %s: new ones are made at the next start", certPath, keyPath)
	key, err := readKey(keyPath, remedy)
	if err != nil {
		return err
	}
	cert, err := readCert(certPath, remedy)
	if err != nil {
		return err
	}
	if key != nil && cert != nil && matchesKey(cert, key) && l.valid(cert, by, now) {
		return nil
	}
	if key, err = newKey(keyPath); err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject: l.subject, DNSNames: l.dns, IPAddresses: l.ips, ExtKeyUsage: []x509.ExtKeyUsage{l.usage},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, BasicConstraintsValid: true,
	}
	setValidity(template, now, leafLife)
	if template.NotAfter.After(by.cert.NotAfter) {
		template.NotAfter = by.cert.NotAfter
	}
	_, err = issue(certPath, template, by, key.Public())
	return err
}

// valid reports whether c has l's content, is signed by this authority, and does not expire soon.
func (l leaf) valid(c *x509.Certificate, by *authority, now time.Time) bool {
	if now.Before(c.NotBefore) || expiresSoon(c, now) || c.CheckSignatureFrom(by.cert) != nil {
		return false
	}
	var have, want []string
	for _, ip := range c.IPAddresses {
		have = append(have, ip.String())
	}
	for _, ip := range l.ips {
		want = append(want, ip.String())
	}
	slices.Sort(have)
	slices.Sort(want)
	dns := slices.Clone(c.DNSNames)
	slices.Sort(dns)
	return c.Subject.CommonName == l.subject.CommonName && slices.Equal(c.Subject.Organization,
		l.subject.Organization) &&
		slices.Equal(have, want) && slices.Equal(dns, l.dns) && slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{l.usage})
}

// expiresSoon reports whether less than a third of a certificate's life is left.
func expiresSoon(c *x509.Certificate, now time.Time) bool {
	return now.After(c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3))
}

// setValidity sets the validity, starting a little before now because clocks differ.
func setValidity(c *x509.Certificate, now time.Time, life time.Duration) {
	c.NotBefore, c.NotAfter = now.Add(-5*time.Minute).UTC(), now.Add(life).UTC()
}

func issue(path string, template *x509.Certificate, by *authority, key crypto.PublicKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key, by.key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := writePEM(path, "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func newKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

// ensureTokenKey maintains sa.key and, derived from it, sa.pub.
func ensureTokenKey(dir string) error {
	path, pub := filepath.Join(dir, "sa.key"), filepath.Join(dir, "sa.pub")
	key, err := readKey(path,
		"restore it from a backup, or delete it to start with a new one (service-account tokens in use stop working "+
			"until Pods renew them)")
	if err != nil {
		return err
	}
	if key == nil {
		if key, err = newKey(path); err != nil {
			return err
		}
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return ensurePEM(pub, "PUBLIC KEY", der)
}

func matchesKey(c *x509.Certificate, key crypto.Signer) bool {
	have, err1 := x509.MarshalPKIXPublicKey(c.PublicKey)
	want, err2 := x509.MarshalPKIXPublicKey(key.Public())
	return err1 == nil && err2 == nil && bytes.Equal(have, want)
}

func keyID(key crypto.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(der)
	return sum[:20]
}
