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
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
)

// TokenGetter looks up what a token may be bound to. A missing object is a NotFound error.
type TokenGetter interface {
	ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
}

// Validator is an authenticator of service-account tokens.
type Validator struct {
	issuers   []string
	audiences authenticator.Audiences
	keys      []Key
	algs      []jose.SignatureAlgorithm
	objects   TokenGetter
	now       func() time.Time
}

// deletionGracePeriod is how long after its deletion was due an object no longer vouches for
// tokens.
const deletionGracePeriod = 60 * time.Second

// maxTokenBytes bounds what is parsed at all; tokens here are about 1.2 kB.
const maxTokenBytes = 16 << 10

// ValidatorOptions says whose tokens a Validator takes.
type ValidatorOptions struct {
	Issuers   []string // names; the first is the one who issues now
	Audiences []string // what this API server calls itself
	Keys      []crypto.PublicKey
	Objects   TokenGetter
	Now       func() time.Time // default time.Now
}

// NewValidator makes a validator.
func NewValidator(t ValidatorOptions) (*Validator, error) {
	v := &Validator{issuers: t.Issuers, audiences: t.Audiences, objects: t.Objects, now: t.Now}
	if v.now == nil {
		v.now = time.Now
	}
	for _, pub := range t.Keys {
		k, err := newKey(pub)
		if err != nil {
			return nil, err
		}
		v.keys = append(v.keys, k)
		if !slices.Contains(v.algs, k.Alg) {
			v.algs = append(v.algs, k.Alg)
		}
	}
	if len(v.keys) == 0 {
		return nil, errors.New("service-account tokens: no key to check them with")
	}
	return v, nil
}

// AuthenticateToken implements authenticator.Token. A token of another issuer is not ours to judge;
// one of ours that is not good is an error.
func (v *Validator) AuthenticateToken(ctx context.Context, raw string) (*authenticator.Response, bool, error) {
	if !v.hasOwnIssuer(raw) {
		return nil, false, nil
	}
	tok, err := jwt.ParseSigned(raw, v.algs)
	if err != nil {
		return nil, false, nil
	}
	claims, err := v.verify(tok)
	if err != nil {
		return nil, false, err
	}
	tokenAudiences := authenticator.Audiences(claims.Audience)
	if len(tokenAudiences) == 0 {
		tokenAudiences = v.audiences // a token without audience is meant for this server
	}
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = v.audiences
	}
	shared := tokenAudiences.Intersect(wanted)
	if len(shared) == 0 && len(v.audiences) > 0 {
		return nil, false, fmt.Errorf("token audiences %q is invalid for the target audiences %q", tokenAudiences,
			wanted)
	}
	info, err := v.validate(ctx, claims)
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: info.UserInfo(), Audiences: shared}, true, nil
}

// hasOwnIssuer tells by the unverified issuer claim, without trusting anything, whether a token may
// be one of ours.
func (v *Validator) hasOwnIssuer(raw string) bool {
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
	return json.Unmarshal(payload, &claims) == nil && slices.Contains(v.issuers, claims.Issuer)
}

// verify checks the signature with the key the token names, or with every key when it names none.
func (v *Validator) verify(tok *jwt.JSONWebToken) (*Claims, error) {
	if len(tok.Headers) != 1 {
		return nil, errors.New("invalid token: more than one signature")
	}
	header := tok.Headers[0]
	var failed []string
	for _, k := range v.keys {
		if header.Algorithm != string(k.Alg) || header.KeyID != "" && header.KeyID != k.ID {
			continue
		}
		c := &Claims{}
		if err := tok.Claims(k.Key, c); err != nil {
			failed = append(failed, err.Error())
			continue
		}
		return c, nil
	}
	if len(failed) == 0 {
		return nil, errors.New("invalid signature, no keys found")
	}
	return nil, fmt.Errorf("invalid signature: %s", strings.Join(failed, ", "))
}

// validate checks times and that everything the token is bound to is still there under the same
// uid.
func (v *Validator) validate(ctx context.Context, c *Claims) (*serviceaccount.ServiceAccountInfo, error) {
	now := v.now()
	switch err := c.Claims.Validate(jwt.Expected{Time: now}); {
	case err == nil:
	case errors.Is(err, jwt.ErrExpired):
		return nil, errors.New("service account token has expired")
	default:
		return nil, fmt.Errorf("service account token is not valid yet or no longer: %w", err)
	}
	p := c.Private
	if p == nil || p.Namespace == "" || p.ServiceAccount.Name == "" {
		return nil, errors.New("service account token names no service account")
	}
	if c.Subject != serviceaccount.MakeUsername(p.Namespace, p.ServiceAccount.Name) {
		return nil, errors.New("service account token's subject is not its service account")
	}
	sa, err := v.objects.ServiceAccount(ctx, p.Namespace, p.ServiceAccount.Name)
	if err != nil {
		return nil, boundObjectError(err, "service account %s/%s", p.Namespace, p.ServiceAccount.Name)
	}
	if deletionOverdue(sa.DeletionTimestamp, now) {
		return nil, fmt.Errorf("service account %s/%s has been deleted", p.Namespace, p.ServiceAccount.Name)
	}
	if string(sa.UID) != p.ServiceAccount.UID {
		return nil, fmt.Errorf("the service account UID (%s) does not match the claim (%s)", sa.UID,
			p.ServiceAccount.UID)
	}
	info := &serviceaccount.ServiceAccountInfo{
		Namespace: p.Namespace, Name: p.ServiceAccount.Name, UID: p.ServiceAccount.UID,
		CredentialID: tokenjwt.CredentialIDForJTI(c.ID),
	}
	if err := v.validateBoundObject(ctx, p, info); err != nil {
		return nil, err
	}
	switch {
	case p.WarnAfter == nil || *p.WarnAfter == 0: // only tokens of a Pod's projected volume are watched
	case !now.After(p.WarnAfter.Time()):
		validTokens.WithContext(ctx).Inc()
	default:
		staleTokens.WithContext(ctx).Inc()
		late := now.Sub(p.WarnAfter.Time())
		audit.AddAuditAnnotation(ctx, "authentication.k8s.io/stale-token",
			fmt.Sprintf("subject: %s, seconds after warning threshold: %.0f", c.Subject, late.Seconds()))
	}
	return info, nil
}

// validateBoundObject checks the Pod, Secret or Node a token is bound to and adds what it says to
// info.
func (v *Validator) validateBoundObject(ctx context.Context, p *PrivateClaims,
	info *serviceaccount.ServiceAccountInfo) error {
	now := v.now()
	if p.Secret != nil {
		s, err := v.objects.Secret(ctx, p.Namespace, p.Secret.Name)
		switch {
		case err != nil:
			return boundObjectError(err, "secret %s/%s", p.Namespace, p.Secret.Name)
		case deletionOverdue(s.DeletionTimestamp, now):
			return errors.New("service account token has been invalidated")
		case string(s.UID) != p.Secret.UID:
			return fmt.Errorf("secret UID (%s) does not match service account secret ref claim (%s)", s.UID,
				p.Secret.UID)
		}
	}
	if p.Pod != nil {
		pod, err := v.objects.Pod(ctx, p.Namespace, p.Pod.Name)
		switch {
		case err != nil:
			return boundObjectError(err, "pod %s/%s", p.Namespace, p.Pod.Name)
		case deletionOverdue(pod.DeletionTimestamp, now):
			return errors.New("service account token has been invalidated")
		case string(pod.UID) != p.Pod.UID:
			return fmt.Errorf("pod UID (%s) does not match service account pod ref claim (%s)", pod.UID, p.Pod.UID)
		}
		info.PodName, info.PodUID = p.Pod.Name, p.Pod.UID
	}
	if p.Node != nil {
		info.NodeName, info.NodeUID = p.Node.Name, p.Node.UID
		if p.Pod == nil { // beside a Pod the Node only informs
			n, err := v.objects.Node(ctx, p.Node.Name)
			switch {
			case err != nil:
				return boundObjectError(err, "node %s", p.Node.Name)
			case deletionOverdue(n.DeletionTimestamp, now):
				return errors.New("service account token has been invalidated")
			case string(n.UID) != p.Node.UID:
				return fmt.Errorf("node UID (%s) does not match service account node ref claim (%s)", n.UID, p.Node.UID)
			}
		}
	}
	return nil
}

// deletionOverdue tells that an object was to be gone a while ago.
func deletionOverdue(deletion *metav1.Time, now time.Time) bool {
	return deletion != nil && now.After(deletion.Add(deletionGracePeriod))
}

func boundObjectError(err error, format string, args ...any) error {
	description := fmt.Sprintf(format, args...)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("service account token has been invalidated: %s is gone", description)
	}
	return fmt.Errorf("looking up %s: %w", description, err)
}
