package token

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

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
	keyRing
	audiences authenticator.Audiences
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
	keys, err := newKeyRing(t.Issuers, t.Keys)
	if err != nil {
		return nil, err
	}
	v := &Validator{keyRing: keys, audiences: t.Audiences, objects: t.Objects, now: t.Now}
	if v.now == nil {
		v.now = time.Now
	}
	return v, nil
}

// AuthenticateToken implements authenticator.Token. A token of another issuer is not ours to
// validate; one of ours that is not good is an error.
func (v *Validator) AuthenticateToken(ctx context.Context, raw string) (*authenticator.Response, bool, error) {
	var claims Claims
	if own, err := v.read(raw, &claims); !own || err != nil {
		return nil, false, err
	}
	shared, err := sharedAudiences(ctx, authenticator.Audiences(claims.Audience), v.audiences)
	if err != nil {
		return nil, false, err
	}
	info, err := v.validate(ctx, &claims)
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: info.UserInfo(), Audiences: shared}, true, nil
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
