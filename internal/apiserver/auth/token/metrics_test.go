package token

import (
	"crypto"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/component-base/metrics/legacyregistry"
)

func counter(t *testing.T, name string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("%s is not served", name)
	return 0
}

// A projected token counts as valid until the time of which its Pod was warned, and as stale from
// then on; others are not counted.
func TestUsesOfProjectedTokensAreCounted(t *testing.T) {
	w, k, now := noError(), key(t), time.Now()
	use := func(warn time.Duration, age time.Duration) (valid, stale float64) {
		t.Helper()
		raw := mint(t, k, issuer, TokenRequest{Account: w.account, Audiences: []string{issuer}, Lifetime: time.Hour,
			WarnAfter: warn, ID: "id-1"}, now)
		v, err := NewValidator(ValidatorOptions{Issuers: []string{issuer}, Audiences: []string{issuer},
			Keys: []crypto.PublicKey{k.Public()}, Objects: w, Now: func() time.Time { return now.Add(age) }})
		if err != nil {
			t.Fatal(err)
		}
		valid, stale = counter(t, "serviceaccount_valid_tokens_total"), counter(t, "serviceaccount_stale_tokens_total")
		if _, ok, err := v.AuthenticateToken(authenticator.WithAudiences(t.Context(), authenticator.Audiences{issuer}),
			raw); !ok || err != nil {
			t.Fatalf("got %v, %v, want found true and no error", ok, err)
		}
		return counter(t, "serviceaccount_valid_tokens_total") - valid,
			counter(t, "serviceaccount_stale_tokens_total") - stale
	}
	if valid, stale := use(10*time.Minute, time.Minute); valid != 1 || stale != 0 {
		t.Errorf("before its warning: %v valid, %v stale, want 1, 0", valid, stale)
	}
	if valid, stale := use(10*time.Minute, 11*time.Minute); valid != 0 || stale != 1 {
		t.Errorf("after its warning: %v valid, %v stale, want 0, 1", valid, stale)
	}
	if valid, stale := use(0, time.Minute); valid+stale != 0 {
		t.Errorf("a token that is not watched: %v valid, %v stale", valid, stale)
	}
}
