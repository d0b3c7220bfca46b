package token

import (
	"context"
	"crypto/subtle"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// The words of bootstrap tokens. Source:
// kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens and cluster-bootstrap's token
// API.
const (
	bootstrapPrefix = "bootstrap-token-"
	bootstrapUser   = "system:bootstrap:"
	bootstrapGroup  = "system:bootstrappers"
)

// BootstrapAuthenticator is an authenticator of bootstrap tokens: Secrets in kube-system by which
// new nodes come in.
type BootstrapAuthenticator struct {
	Objects      TokenGetter
	Now          func() time.Time // default time.Now
	tokenPattern *regexp.Regexp
	groupPattern *regexp.Regexp
}

// NewBootstrapAuthenticator makes one.
func NewBootstrapAuthenticator(o TokenGetter, now func() time.Time) *BootstrapAuthenticator {
	if now == nil {
		now = time.Now
	}
	return &BootstrapAuthenticator{Objects: o, Now: now,
		tokenPattern: regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`),
		groupPattern: regexp.MustCompile(`\A` + bootstrapGroup + `:[a-z0-9:-]{0,255}[a-z0-9]\z`),
	}
}

// AuthenticateToken implements authenticator.Token. What is not a good bootstrap token is not ours
// to validate, as upstream has it.
func (b *BootstrapAuthenticator) AuthenticateToken(ctx context.Context,
	raw string) (*authenticator.Response, bool, error) {
	parts := b.tokenPattern.FindStringSubmatch(raw)
	if parts == nil {
		return nil, false, nil
	}
	secret, err := b.Objects.Secret(ctx, metav1.NamespaceSystem, bootstrapPrefix+parts[1])
	if err != nil {
		return nil, false, nil
	}
	groups, ok := b.validate(secret, parts[1], parts[2])
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: bootstrapUser + parts[1], Groups: groups}}, true, nil
}

// validate says whether a Secret vouches for a token now, and for which groups.
func (b *BootstrapAuthenticator) validate(s *corev1.Secret, id, secret string) ([]string, bool) {
	if s.DeletionTimestamp != nil || s.Type != corev1.SecretTypeBootstrapToken || s.Data == nil {
		return nil, false
	}
	if subtle.ConstantTimeCompare(s.Data["token-secret"], []byte(secret)) != 1 || string(s.Data["token-id"]) != id {
		return nil, false
	}
	if end := string(s.Data["expiration"]); end != "" {
		at, err := time.Parse(time.RFC3339, end)
		if err != nil || !b.Now().Before(at) {
			return nil, false
		}
	}
	if string(s.Data["usage-bootstrap-authentication"]) != "true" {
		return nil, false
	}
	groups := []string{bootstrapGroup}
	for g := range strings.SplitSeq(string(s.Data["auth-extra-groups"]), ",") {
		switch {
		case g == "":
		case !b.groupPattern.MatchString(g):
			return nil, false
		default:
			groups = append(groups, g)
		}
	}
	return groups, true
}
