package token

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type oneSecret struct {
	TokenGetter
	secret *corev1.Secret
}

func (o oneSecret) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	if namespace != o.secret.Namespace || name != o.secret.Name {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	return o.secret, nil
}

// Each rule of a bootstrap token, broken one at a time.
func TestBootstrapTokens(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	good := map[string]string{
		"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
		"expiration":        now.Add(time.Second).Format(time.RFC3339),
		"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token,system:bootstrappers:b",
	}
	for name, tt := range map[string]struct {
		token  string
		change func(*corev1.Secret)
		want   []string
	}{
		"good": {want: []string{"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token",
			"system:bootstrappers:b"}},
		"no extra groups": {change: func(s *corev1.Secret) { delete(s.Data, "auth-extra-groups") },
			want: []string{"system:bootstrappers"}},
		"forever": {change: func(s *corev1.Secret) { delete(s.Data, "expiration") },
			want: []string{"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token",
				"system:bootstrappers:b"}},
		"wrong secret": {token: "abcdef.0123456789abcdeX"},
		"other secret": {token: "abcdef.0123456789abcdee"},
		"unknown id":   {token: "abcdeg.0123456789abcdef"},
		"no token":     {token: "abcdef"},
		"expired":      {change: func(s *corev1.Secret) { s.Data["expiration"] = []byte(now.Format(time.RFC3339)) }},
		"bad time":     {change: func(s *corev1.Secret) { s.Data["expiration"] = []byte("tomorrow") }},
		"other use": {
			change: func(s *corev1.Secret) { s.Data["usage-bootstrap-authentication"] = []byte("false") }},
		"other type":    {change: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }},
		"being deleted": {change: func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} }},
		"other id":      {change: func(s *corev1.Secret) { s.Data["token-id"] = []byte("abcdeg") }},
		"masters":       {change: func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:masters") }},
		"no data":       {change: func(s *corev1.Secret) { s.Data = nil }},
		"elsewhere":     {change: func(s *corev1.Secret) { s.Namespace = "default" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
				Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{}}
			for _, k := range slices.Sorted(maps.Keys(good)) {
				s.Data[k] = []byte(good[k])
			}
			if tt.change != nil {
				tt.change(s)
			}
			raw := tt.token
			if raw == "" {
				raw = "abcdef.0123456789abcdef"
			}
			res, ok, err := NewBootstrapAuthenticator(oneSecret{secret: s},
				func() time.Time { return now }).AuthenticateToken(t.Context(), raw)
			if err != nil || ok != (tt.want != nil) {
				t.Fatalf("got %v, %v, want no error and ok %v", ok, err, tt.want != nil)
			}
			if ok && (res.User.GetName() != "system:bootstrap:abcdef" ||
				fmt.Sprint(res.User.GetGroups()) != fmt.Sprint(tt.want)) {
				t.Errorf("got %q in %q", res.User.GetName(), res.User.GetGroups())
			}
		})
	}
}
