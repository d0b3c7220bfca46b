package server

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
)

// Delegation says whom to ask who somebody is and what they may do.
type Delegation struct {
	Client kubernetes.Interface // TokenReview and SubjectAccessReview; required
	// CA of client certificates, asked on each handshake so that it can be rotated; nil takes no
	// certificates
	ClientCA func() (roots *x509.CertPool, have bool)

	TokenTTL time.Duration // authentication.webhook.cacheTTL, 2 min
	AllowTTL time.Duration // authorization.webhook.cacheAuthorizedTTL, 5 min
	DenyTTL  time.Duration // authorization.webhook.cacheUnauthorizedTTL, 30 s

	Anonymous bool // authentication.anonymous.enabled: who shows nothing is system:anonymous
	NoTokens  bool // authentication.webhook.enabled false: tokens are not looked at
	AllowAll  bool // authorization.mode AlwaysAllow: who is somebody may everything
}

// Delegated returns an authenticator (client certificates, then tokens; nobody is anonymous unless
// that is wanted) and an authorizer that ask the API server and remember.
func Delegated(d Delegation) (authenticator.Request, authorizer.UnconditionalAuthorizer) {
	for _, x := range []struct {
		ttl *time.Duration
		def time.Duration
	}{{&d.TokenTTL, 2 * time.Minute}, {&d.AllowTTL, 5 * time.Minute}, {&d.DenyTTL, 30 * time.Second}} {
		if *x.ttl <= 0 {
			*x.ttl = x.def
		}
	}
	list := []authenticator.Request{}
	if d.ClientCA != nil {
		verify := func() (x509.VerifyOptions, bool) {
			o := x509request.DefaultVerifyOptions()
			roots, have := d.ClientCA()
			o.Roots = roots
			return o, have
		}
		list = append(list, x509request.NewDynamic(verify, x509request.CommonNameUserConversion))
	}
	tokens := &tokenReviewer{d: d, cache: newTTLCache[*authenticator.Response]()}
	if !d.NoTokens {
		list = append(list, bearertoken.New(tokens))
	}
	requester := group.NewAuthenticatedGroupAdder(union.New(list...))
	if d.Anonymous {
		requester = union.NewFailOnError(requester, anonymous.NewAuthenticator(nil))
	}
	if d.AllowAll {
		return requester, allowAll{}
	}
	return requester, &accessReviewer{d: d, cache: newTTLCache[authorizer.Decision]()}
}

// allowAll allows everything.
type allowAll struct{}

// Authorize says yes.
func (allowAll) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

type tokenReviewer struct {
	d     Delegation
	cache *ttlCache[*authenticator.Response]
}

// AuthenticateToken asks once per token and TTL; a refusal is remembered as long as an acceptance,
// an error not at all.
func (t *tokenReviewer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(token)))
	if r, ok := t.cache.get(key, time.Now()); ok {
		return r, r != nil, nil
	}
	review, err := t.d.Client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("token review: %w", err)
	}
	if review.Status.Error != "" && !review.Status.Authenticated {
		return nil, false, errors.New(review.Status.Error)
	}
	var r *authenticator.Response
	if u := review.Status.User; review.Status.Authenticated {
		extra := map[string][]string{}
		for k, v := range u.Extra {
			extra[k] = v
		}
		r = &authenticator.Response{User: &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups,
			Extra: extra}}
	}
	t.cache.put(key, r, time.Now().Add(t.d.TokenTTL))
	return r, r != nil, nil
}

type accessReviewer struct {
	d     Delegation
	cache *ttlCache[authorizer.Decision]
}

var _ authorizer.UnconditionalAuthorizer = (*accessReviewer)(nil)

// Authorize asks once per question and TTL.
func (a *accessReviewer) Authorize(ctx context.Context, q authorizer.Attributes) (authorizer.Decision, string, error) {
	u := q.GetUser()
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: q.GetVerb(), Version: q.GetAPIVersion(), Resource: q.GetResource(), Subresource: q.GetSubresource(),
			Name: q.GetName(),
		},
	}
	for k, v := range u.GetExtra() {
		spec.Extra[k] = v
	}
	key := spec.String()
	if d, ok := a.cache.get(key, time.Now()); ok {
		return d, "", nil
	}
	review, err := a.d.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("subject access review: %w", err)
	}
	d, ttl := authorizer.DecisionNoOpinion, a.d.DenyTTL
	switch {
	case review.Status.Denied:
		d = authorizer.DecisionDeny
	case review.Status.Allowed:
		d, ttl = authorizer.DecisionAllow, a.d.AllowTTL
	}
	a.cache.put(key, d, time.Now().Add(ttl))
	return d, review.Status.Reason, nil
}

// ttlCache remembers answers until they are old; it never holds more than remembered of them.
type ttlCache[T any] struct {
	mu      sync.Mutex
	entries map[string]cachedValue[T]
}

type cachedValue[T any] struct {
	value T
	until time.Time
}

const maxCached = 4096

func newTTLCache[T any]() *ttlCache[T] { return &ttlCache[T]{entries: map[string]cachedValue[T]{}} }

func (m *ttlCache[T]) get(key string, now time.Time) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.entries[key]
	if !ok || now.After(k.until) {
		var none T
		return none, false
	}
	return k.value, true
}

func (m *ttlCache[T]) put(key string, v T, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.entries) >= maxCached {
		clear(m.entries)
	}
	m.entries[key] = cachedValue[T]{v, until}
}
