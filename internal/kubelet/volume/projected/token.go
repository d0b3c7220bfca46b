package projected

import (
	"context"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// retry is how soon a renewal that failed is tried again while the old token is still good.
const retry = 30 * time.Second

// tokenKey is one token file of one volume.
type tokenKey struct{ dir, path string }

type cachedToken struct {
	text               string
	refreshAt, expires time.Time
}

// tokenCache keeps tokens until they are due, so that other changes of a volume do not ask for new
// ones.
type tokenCache struct {
	api    volume.Tokens
	mu     sync.Mutex
	tokens map[tokenKey]cachedToken
}

// get returns the token and when to come back for the next one.
func (c *tokenCache) get(ctx context.Context, a volume.MounterArgs,
	s *v1.ServiceAccountTokenProjection) (string, time.Time, error) {
	at := tokenKey{a.Dir, s.Path}
	c.mu.Lock()
	old, ok := c.tokens[at]
	c.mu.Unlock()
	now := time.Now()
	if ok && now.Before(old.refreshAt) {
		return old.text, old.refreshAt, nil
	}
	fresh, err := c.request(ctx, a.Pod, s)
	if err != nil {
		if ok && now.Before(old.expires) {
			klog.FromContext(ctx).Error(err, "Service-account token not renewed, the old one is still good",
				"pod", klog.KObj(a.Pod), "expires", old.expires)
			return old.text, now.Add(retry), nil
		}
		return "", time.Time{}, err
	}
	c.mu.Lock()
	c.tokens[at] = fresh
	c.mu.Unlock()
	return fresh.text, fresh.refreshAt, nil
}

// request asks for a token bound to the Pod: it ends with it.
func (c *tokenCache) request(ctx context.Context, pod *v1.Pod,
	s *v1.ServiceAccountTokenProjection) (cachedToken, error) {
	seconds := int64(3600)
	if s.ExpirationSeconds != nil {
		seconds = *s.ExpirationSeconds
	}
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
			UID: pod.UID},
	}}
	if s.Audience != "" {
		r.Spec.Audiences = []string{s.Audience}
	}
	got, err := c.api.CreateToken(ctx, pod.Namespace, pod.Spec.ServiceAccountName, r)
	if err != nil {
		return cachedToken{}, err
	}
	life := seconds
	if got.Spec.ExpirationSeconds != nil {
		life = *got.Spec.ExpirationSeconds // the server may shorten or lengthen it
	}
	expires := got.Status.ExpirationTimestamp.Time
	return cachedToken{got.Status.Token, volume.TokenRefreshTime(expires, time.Duration(life)*time.Second),
		expires}, nil
}

func (c *tokenCache) forget(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := range c.tokens {
		if at.dir == dir {
			delete(c.tokens, at)
		}
	}
}
