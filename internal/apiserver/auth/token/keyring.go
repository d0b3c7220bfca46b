package token

import (
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// keyRing reads tokens of some issuers that are signed with some keys.
type keyRing struct {
	issuers []string
	keys    []Key
	algs    []jose.SignatureAlgorithm
}

func newKeyRing(issuers []string, keys []crypto.PublicKey) (keyRing, error) {
	r := keyRing{issuers: issuers}
	for _, pub := range keys {
		k, err := newKey(pub)
		if err != nil {
			return r, err
		}
		r.keys = append(r.keys, k)
		if !slices.Contains(r.algs, k.Alg) {
			r.algs = append(r.algs, k.Alg)
		}
	}
	if len(r.keys) == 0 {
		return r, errors.New("service-account tokens: no key to check them with")
	}
	return r, nil
}

// read checks the signature of a token and sets claims, which must be empty. own is false if the
// token is not of these issuers, or no token at all.
func (r *keyRing) read(raw string, claims any) (own bool, err error) {
	if !r.hasOwnIssuer(raw) {
		return false, nil
	}
	tok, err := jwt.ParseSigned(raw, r.algs)
	if err != nil {
		return false, nil
	}
	return true, r.verify(tok, claims)
}

// hasOwnIssuer tells by the unverified issuer claim, without trusting anything, whether a token may
// be one of ours.
func (r *keyRing) hasOwnIssuer(raw string) bool {
	if len(raw) > maxTokenBytes {
		return false
	}
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	return json.Unmarshal(payload, &claims) == nil && slices.Contains(r.issuers, claims.Issuer)
}

// verify checks the signature with the key the token names, or with every key when it names none.
func (r *keyRing) verify(tok *jwt.JSONWebToken, claims any) error {
	if len(tok.Headers) != 1 {
		return errors.New("invalid token: more than one signature")
	}
	header := tok.Headers[0]
	var failed []string
	for _, k := range r.keys {
		if header.Algorithm != string(k.Alg) || header.KeyID != "" && header.KeyID != k.ID {
			continue
		}
		err := tok.Claims(k.Key, claims)
		if err == nil {
			return nil
		}
		failed = append(failed, err.Error())
	}
	if len(failed) == 0 {
		return errors.New("invalid signature, no keys found")
	}
	return fmt.Errorf("invalid signature: %s", strings.Join(failed, ", "))
}

// sharedAudiences returns the audiences of a token that the request wants, own if it wants none; a
// token without audience is meant for own. An error if there is none.
func sharedAudiences(ctx context.Context, ofToken, own authenticator.Audiences) (authenticator.Audiences, error) {
	if len(ofToken) == 0 {
		ofToken = own
	}
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = own
	}
	shared := ofToken.Intersect(wanted)
	if len(shared) == 0 && len(own) > 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", ofToken, wanted)
	}
	return shared, nil
}
