package webhook

import (
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/util/webhook"
	tokenwebhook "k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
)

// TokenOptions says who is asked about bearer tokens that nobody here knows.
type TokenOptions struct {
	File    string        // kubeconfig of the server that answers TokenReviews; empty asks nobody
	Version string        // of authentication.k8s.io: v1 or v1beta1, upstream's default
	TTL     time.Duration // how long answers are remembered; 2 minutes when 0
}

// Authenticator asks.
func (t TokenOptions) Authenticator(audiences authenticator.Audiences) (authenticator.Token, error) {
	cfg, err := webhook.LoadKubeconfig(t.File, nil)
	if err != nil {
		return nil, fmt.Errorf("--authentication-token-webhook-config-file %s: %w", t.File, err)
	}
	version := t.Version
	switch version {
	case "":
		version = "v1beta1"
	case "v1", "v1beta1":
	default:
		return nil, fmt.Errorf("--authentication-token-webhook-version %q: must be v1 or v1beta1", version)
	}
	ttl := t.TTL
	if ttl == 0 {
		ttl = 2 * time.Minute
	}
	query, err := tokenwebhook.New(cfg, version, audiences, *tokenwebhook.DefaultRetryBackoff())
	if err != nil {
		return nil, fmt.Errorf("--authentication-token-webhook-config-file %s: %w", t.File, err)
	}
	return cache.New(query, false, ttl, ttl), nil
}
