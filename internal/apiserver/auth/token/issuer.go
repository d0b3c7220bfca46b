package token

import (
	"crypto"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Issuer signs tokens.
type Issuer struct {
	name   string
	signer jose.Signer
}

// NewIssuer makes an issuer with a name (a URL) and a key.
func NewIssuer(name string, key crypto.Signer) (*Issuer, error) {
	k, err := newKey(key.Public())
	if err != nil {
		return nil, err
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: k.Alg, Key: jose.JSONWebKey{Key: key, KeyID: k.ID}}, nil)
	if err != nil {
		return nil, fmt.Errorf("service-account issuer: %w", err)
	}
	return &Issuer{name: name, signer: s}, nil
}

// Issue signs a token for the request; its times count from now.
func (i *Issuer) Issue(w TokenRequest, now time.Time) (string, error) {
	raw, err := jwt.Signed(i.signer).Claims(w.Claims(i.name, now)).Serialize()
	if err != nil {
		return "", fmt.Errorf("signing a service-account token: %w", err)
	}
	return raw, nil
}
