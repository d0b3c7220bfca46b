package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"

	"github.com/go-jose/go-jose/v4"
)

// Key is a public key tokens may be signed with.
type Key struct {
	ID  string // SHA-256 of the key's DER form, base64url, as upstream names keys
	Alg jose.SignatureAlgorithm
	Key crypto.PublicKey
}

// ReadPrivate reads the key that signs, from a PEM file.
func ReadPrivate(path string) (crypto.Signer, error) {
	keys, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if s, ok := k.(crypto.Signer); ok {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s: no private key in it: name the file that holds the service-account signing key", path)
}

// ReadPublic reads every key of a PEM file, private ones as their public half.
func ReadPublic(path string) ([]crypto.PublicKey, error) {
	keys, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	out := make([]crypto.PublicKey, 0, len(keys))
	for _, k := range keys {
		if s, ok := k.(crypto.Signer); ok {
			k = s.Public()
		}
		out = append(out, k)
	}
	return out, nil
}

func readPEM(path string) ([]any, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("service-account key: %w", err)
	}
	var out []any
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		k, err := parseBlock(block)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, block.Type, err)
		}
		if k != nil {
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no key in it: a PEM file with an RSA or ECDSA key is needed", path)
	}
	return out, nil
}

func parseBlock(b *pem.Block) (any, error) {
	switch b.Type {
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(b.Bytes)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(b.Bytes)
	case "PRIVATE KEY":
		return x509.ParsePKCS8PrivateKey(b.Bytes)
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(b.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(b.Bytes)
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		return c.PublicKey, nil
	}
	return nil, nil
}

// newKey names a public key and the algorithm it signs with.
func newKey(pub crypto.PublicKey) (Key, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return Key{}, fmt.Errorf("service-account key: %w", err)
	}
	sum := sha256.Sum256(der)
	k := Key{ID: base64.RawURLEncoding.EncodeToString(sum[:]), Key: pub}
	switch pub := pub.(type) {
	case *rsa.PublicKey:
		k.Alg = jose.RS256
	case *ecdsa.PublicKey:
		switch pub.Curve {
		case elliptic.P256():
			k.Alg = jose.ES256
		case elliptic.P384():
			k.Alg = jose.ES384
		case elliptic.P521():
			k.Alg = jose.ES512
		default:
			return Key{}, fmt.Errorf("service-account key: curve %s: use P-256, P-384 or P-521",
				pub.Curve.Params().Name)
		}
	default:
		return Key{}, fmt.Errorf("service-account key: type %T: use RSA or ECDSA", pub)
	}
	return k, nil
}
