package bootstrap

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func token(id string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretPrefix + id, Namespace: "kube-system"},
		Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{"token-id": []byte(id),
			"token-secret": []byte("0123456789abcdef")}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	signs := map[string]string{"usage-bootstrap-signing": "true"}
	secrets := []*corev1.Secret{
		token("gone00", map[string]string{"expiration": "2026-01-02T03:04:05Z", "usage-bootstrap-signing": "true"}),
		token("odd000", map[string]string{"expiration": "tomorrow"}),
		token("soon00", map[string]string{"expiration": "2026-01-02T03:04:15Z"}), token("signs0", signs),
		token("silent", nil),
	}
	info := &corev1.ConfigMap{Data: map[string]string{kubeconfigKey: "text", signaturePrefix + "former": "x"}}
	p := Decide(secrets, info, now)
	if len(p.Expired) != 2 || p.Expired[0].Name != "bootstrap-token-gone00" ||
		p.Expired[1].Name != "bootstrap-token-odd000" || p.NextExpiry != 10*time.Second {
		t.Errorf("got %+v, want 2 in Expired, Name bootstrap-token-gone00, Name bootstrap-token-odd000 and "+
			"NextExpiry %v", p, 10*time.Second)
	}
	s := p.ClusterInfo.Data[signaturePrefix+"signs0"]
	parts := strings.Split(s, "..")
	if len(p.ClusterInfo.Data) != 2 || len(parts) != 2 {
		t.Fatalf("signatures: %v", p.ClusterInfo.Data)
	}
	// Reckoned with openssl: printf '%s.%s' HEADER CONTENT | openssl dgst -sha256 -hmac
	// 0123456789abcdef
	if header, err := base64.RawURLEncoding.DecodeString(parts[0]); err != nil ||
		string(header) != `{"alg":"HS256","kid":"signs0"}` {
		t.Errorf("header %s, %v", header, err)
	}
	if parts[1] != "bIfD_cqgvTB3rWNR7bPXp2Uesgp7GQDW1xgu3wrYxpA" {
		t.Errorf("signature %s, want bIfD_cqgvTB3rWNR7bPXp2Uesgp7GQDW1xgu3wrYxpA", parts[1])
	}
	if p.ClusterInfo.Data[kubeconfigKey] != "text" || info.Data[signaturePrefix+"former"] != "x" {
		t.Errorf("got %v, want the kubeconfig kept, and what was given unchanged: %v", p.ClusterInfo.Data, info.Data)
	}
	if again := Decide(secrets[3:], p.ClusterInfo, now); again.ClusterInfo != nil {
		t.Error("what is signed is signed again")
	}
	if none := Decide(secrets, nil, now); none.ClusterInfo != nil {
		t.Error("cluster-info was made up")
	}
}

// Only Secrets of bootstrap tokens that are whole, not ending and for signing sign; each that
// expires is known, the first one first.
func TestWhichTokensCount(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	signing := map[string]string{"usage-bootstrap-signing": "true"}
	until := func(at string) map[string]string {
		return map[string]string{"usage-bootstrap-signing": "true", "expiration": at}
	}
	changed := func(s *corev1.Secret, change func(*corev1.Secret)) *corev1.Secret {
		change(s)
		return s
	}
	ending := func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} }
	opaque := func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }
	for name, c := range map[string]struct {
		secrets    []*corev1.Secret
		expired    int
		nextExpiry time.Duration
		signs      string
	}{
		"none": {},
		"one":  {secrets: []*corev1.Secret{token("a", signing)}, signs: "a"},
		"two":  {secrets: []*corev1.Secret{token("a", signing), token("b", signing)}, signs: "a b"},
		"one not for signing": {secrets: []*corev1.Secret{token("a",
			map[string]string{"usage-bootstrap-signing": "yes"})}},
		"one that ends": {secrets: []*corev1.Secret{changed(token("a", until("2020-01-01T00:00:00Z")), ending)}},
		"one that ends, too": {secrets: []*corev1.Secret{changed(token("a", signing), ending), token("b", signing)},
			signs: "b"},
		"of another type": {secrets: []*corev1.Secret{changed(token("a", until("2020-01-01T00:00:00Z")), opaque)}},
		"of another name": {secrets: []*corev1.Secret{changed(token("a", signing),
			func(s *corev1.Secret) { s.Name = "other" })}},
		"without a secret": {secrets: []*corev1.Secret{token("a", map[string]string{"usage-bootstrap-signing": "true",
			"token-secret": ""})}},
		"until now": {secrets: []*corev1.Secret{token("a", until("2026-01-02T03:04:05Z"))}, expired: 1},
		"for a second": {secrets: []*corev1.Secret{token("a", until("2026-01-02T03:04:06Z"))}, nextExpiry: time.Second,
			signs: "a"},
		"the first comes first": {secrets: []*corev1.Secret{token("a", until("2026-01-02T03:04:07Z")), token("b",
			until("2026-01-02T03:04:08Z"))}, nextExpiry: 2 * time.Second, signs: "a b"},
		"the first comes last": {secrets: []*corev1.Secret{token("a", until("2026-01-02T03:04:08Z")), token("b",
			until("2026-01-02T03:04:07Z"))}, nextExpiry: 2 * time.Second, signs: "a b"},
		"one past, one to come": {secrets: []*corev1.Secret{token("a", until("2026-01-01T00:00:00Z")), token("b",
			until("2026-01-02T03:04:07Z"))}, expired: 1, nextExpiry: 2 * time.Second, signs: "b"},
	} {
		p := Decide(c.secrets, &corev1.ConfigMap{Data: map[string]string{kubeconfigKey: "text"}}, now)
		var signs []string
		if p.ClusterInfo != nil {
			for k := range p.ClusterInfo.Data {
				if id, ok := strings.CutPrefix(k, signaturePrefix); ok {
					signs = append(signs, id)
				}
			}
		}
		slices.Sort(signs)
		if got := strings.Join(signs, " "); got != c.signs || len(p.Expired) != c.expired ||
			p.NextExpiry != c.nextExpiry {
			t.Errorf("%s: %q sign, %d expired, next in %v, want %q, %d, %v", name, got, len(p.Expired), p.NextExpiry,
				c.signs, c.expired, c.nextExpiry)
		}
		empty := &corev1.ConfigMap{Data: map[string]string{signaturePrefix + "former": "x"}}
		if p := Decide(c.secrets, empty, now); p.ClusterInfo != nil || len(p.Expired) != c.expired {
			t.Errorf("%s, without a kubeconfig: got %+v, want nothing signed", name, p)
		}
	}
}
