package token

import (
	"context"
	"crypto"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// labelled keeps the patches of Secrets.
type labelled struct {
	typedcorev1.SecretInterface
	patches []string
}

func (l *labelled) Secrets(string) typedcorev1.SecretInterface { return l }

func (l *labelled) Patch(_ context.Context, name string, _ types.PatchType, patch []byte, _ metav1.PatchOptions,
	_ ...string) (*corev1.Secret, error) {
	l.patches = append(l.patches, name+" "+string(patch))
	return nil, nil
}

// uses are the counters of tokens in Secrets: all, made by hand, generated, marked invalid.
func uses(t *testing.T) (out [4]float64) {
	for i, name := range []string{"legacy_tokens", "legacy_manual_token_uses", "legacy_auto_token_uses",
		"invalid_legacy_auto_token_uses"} {
		out[i] = counter(t, "serviceaccount_"+name+"_total")
	}
	return out
}

// A token in a Secret is good while it stands there and its account lives under the same uid; each
// day of its use is written to the Secret's label.
//
// row: API-49
func TestTokensInSecrets(t *testing.T) {
	now := time.Date(2026, 5, 1, 23, 0, 0, 0, time.UTC)
	k, other := key(t), key(t)
	label := func(name, day string) func(*apiObjects) {
		return func(w *apiObjects) { w.secret.Labels = map[string]string{name: day} }
	}
	const patch = `s {"metadata":{"labels":{"kubernetes.io/legacy-token-last-used":"2026-05-01"},"uid":"s-uid"}}`
	for _, c := range []struct {
		name    string
		by      crypto.Signer
		change  func(*apiObjects)
		want    string // part of the error; empty means good
		patches []string
		counted [4]float64
	}{
		{name: "good", patches: []string{patch}, counted: [4]float64{1, 1, 0, 0}},
		{name: "used today", change: label(LastUsedLabel, "2026-05-01"), counted: [4]float64{1, 1, 0, 0}},
		{name: "used yesterday", change: label(LastUsedLabel, "2026-04-30"), patches: []string{patch},
			counted: [4]float64{1, 1, 0, 0}},
		{name: "used tomorrow, by another server's clock", change: label(LastUsedLabel, "2026-05-02"),
			counted: [4]float64{1, 1, 0, 0}},
		{name: "generated", change: func(w *apiObjects) {
			w.account.Secrets = []corev1.ObjectReference{{Name: "s"}}
		}, patches: []string{patch}, counted: [4]float64{1, 0, 1, 0}},
		{name: "marked invalid", change: label(InvalidSinceLabel, "2026-04-30"),
			want:    "the token in secret ns/s for service account ns/sa has been marked invalid",
			patches: []string{patch}, counted: [4]float64{1, 0, 0, 1}},
		{name: "another key", by: other, want: "invalid signature"},
		{name: "secret gone", change: func(w *apiObjects) { w.secret = nil }, want: "Token has been invalidated",
			counted: [4]float64{1}},
		{name: "secret being deleted",
			change: func(w *apiObjects) { w.secret.DeletionTimestamp = &metav1.Time{Time: now} },
			want:   "Token has been invalidated", counted: [4]float64{1}},
		{name: "secret with another token",
			change: func(w *apiObjects) { w.secret.Data[corev1.ServiceAccountTokenKey] = []byte("x") },
			want:   "Token does not match server's copy", counted: [4]float64{1}},
		{name: "account gone", change: func(w *apiObjects) { w.account = nil }, want: "not found",
			counted: [4]float64{1}},
		{name: "account being deleted",
			change: func(w *apiObjects) { w.account.DeletionTimestamp = &metav1.Time{Time: now} },
			want:   "ServiceAccount ns/sa has been deleted", counted: [4]float64{1}},
		{name: "account made anew", change: func(w *apiObjects) { w.account.UID = "2" },
			want: "ServiceAccount UID (2) does not match claim (sa-uid)", counted: [4]float64{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, l := noError(), &labelled{}
			if c.by == nil {
				c.by = k
			}
			i, err := NewLegacyIssuer(c.by)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := i.IssueLegacy(w.account, w.secret)
			if err != nil {
				t.Fatal(err)
			}
			w.secret.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte(raw)}
			if c.change != nil {
				c.change(w)
			}
			v, err := NewLegacyValidator(ValidatorOptions{Audiences: []string{issuer}, Objects: w,
				Keys: []crypto.PublicKey{k.Public()}, Now: func() time.Time { return now }}, l)
			if err != nil {
				t.Fatal(err)
			}
			before := uses(t)
			resp, ok, err := v.AuthenticateToken(t.Context(), raw)
			switch {
			case c.want == "" && (err != nil || !ok):
				t.Fatalf("got %v, want a good token", err)
			case c.want == "" && (resp.User.GetName() != "system:serviceaccount:ns:sa" ||
				resp.User.GetUID() != "sa-uid" || fmt.Sprint(resp.Audiences) != fmt.Sprint([]string{issuer})):
				t.Errorf("got %v for %q", resp.User, resp.Audiences)
			case c.want != "" && (ok || err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, %v, want %q", ok, err, c.want)
			}
			if fmt.Sprint(l.patches) != fmt.Sprint(c.patches) {
				t.Errorf("got patches %q, want %q", l.patches, c.patches)
			}
			after := uses(t)
			for i := range after {
				after[i] -= before[i]
			}
			if after != c.counted {
				t.Errorf("got uses %v, want %v", after, c.counted)
			}
		})
	}
}

// The claims are upstream's, and a token that lacks one or does not expire by itself is validated
// as there.
func TestClaimsOfTokensInSecrets(t *testing.T) {
	w, k := noError(), key(t)
	i, err := NewLegacyIssuer(k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := i.IssueLegacy(w.account, w.secret)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	tok, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	if err := tok.UnsafeClaimsWithoutVerification(&got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:ns:sa",
		"kubernetes.io/serviceaccount/namespace": "ns", "kubernetes.io/serviceaccount/secret.name": "s",
		"kubernetes.io/serviceaccount/service-account.name": "sa",
		"kubernetes.io/serviceaccount/service-account.uid":  "sa-uid"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	good := LegacyClaims{Claims: jwt.Claims{Subject: "system:serviceaccount:ns:sa"}, Namespace: "ns", Secret: "s",
		Account: "sa", AccountUID: "u"}
	for want, change := range map[string]func(*LegacyClaims){
		"sub claim is missing":                func(c *LegacyClaims) { c.Subject = "" },
		"namespace claim is missing":          func(c *LegacyClaims) { c.Namespace = "" },
		"secretName claim is missing":         func(c *LegacyClaims) { c.Secret = "" },
		"serviceAccountName claim is missing": func(c *LegacyClaims) { c.Account = "" },
		"serviceAccountUID claim is missing":  func(c *LegacyClaims) { c.AccountUID = "" },
		"sub claim is invalid":                func(c *LegacyClaims) { c.Account = "other" },
	} {
		c := good
		change(&c)
		if err := c.check(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := good.check(); err != nil {
		t.Error(err)
	}
}
