package token

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
)

const issuer = "https://kubernetes.default.svc.cluster.local"

// apiObjects are the objects that exist.
type apiObjects struct {
	account *corev1.ServiceAccount
	pod     *corev1.Pod
	secret  *corev1.Secret
	node    *corev1.Node
}

func noError() *apiObjects {
	m := func(name, uid string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}
	}
	return &apiObjects{
		&corev1.ServiceAccount{ObjectMeta: m("sa", "sa-uid")}, &corev1.Pod{ObjectMeta: m("p", "p-uid")},
		&corev1.Secret{ObjectMeta: m("s", "s-uid")},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}},
	}
}

func asResult[T any](o *T, kind string) (*T, error) {
	if o == nil {
		return nil, apierrors.NewNotFound(corev1.Resource(kind), "x")
	}
	return o, nil
}

func (w *apiObjects) ServiceAccount(context.Context, string, string) (*corev1.ServiceAccount, error) {
	return asResult(w.account, "serviceaccounts")
}
func (w *apiObjects) Pod(context.Context, string, string) (*corev1.Pod, error) {
	return asResult(w.pod, "pods")
}
func (w *apiObjects) Secret(context.Context, string, string) (*corev1.Secret, error) {
	return asResult(w.secret, "secrets")
}
func (w *apiObjects) Node(context.Context, string) (*corev1.Node, error) {
	return asResult(w.node, "nodes")
}

func key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func mint(t testing.TB, k crypto.Signer, by string, w TokenRequest, at time.Time) string {
	t.Helper()
	i, err := NewIssuer(by, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := i.Issue(w, at)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// row: API-49
func TestTokensAreGoodWhileWhatTheyAreBoundToLives(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	k, other := key(t), key(t)
	bound := func(w *apiObjects) TokenRequest {
		return TokenRequest{Account: w.account, Pod: w.pod, Node: w.node, Audiences: []string{issuer},
			Lifetime: time.Hour, ID: "id-1"}
	}
	soon := metav1.NewTime(now.Add(30 * time.Second))
	past := metav1.NewTime(now.Add(-2 * time.Minute))
	cases := []struct {
		name    string
		request func(*apiObjects) TokenRequest
		by      *ecdsa.PrivateKey
		issuer  string
		change  func(*apiObjects)
		after   time.Duration
		want    string // part of the error; empty means good, "-" means not ours
	}{
		{name: "good"},
		{name: "expired", after: 2 * time.Hour, want: "expired"},
		{name: "not valid yet", after: -2 * time.Hour, want: "not valid yet"},
		{name: "another issuer", issuer: "https://elsewhere", want: "-"},
		{name: "another key", by: other, want: "invalid signature"},
		{name: "account gone", change: func(w *apiObjects) { w.account = nil }, want: "invalidated"},
		{name: "account made anew", change: func(w *apiObjects) { w.account.UID = "2" },
			want: "UID (2) does not match the claim (sa-uid)"},
		{name: "account deleted long ago", change: func(w *apiObjects) { w.account.DeletionTimestamp = &past },
			want: "has been deleted"},
		{name: "pod gone", change: func(w *apiObjects) { w.pod = nil }, want: "invalidated"},
		{name: "pod made anew", change: func(w *apiObjects) { w.pod.UID = "2" },
			want: "does not match service account pod ref claim"},
		{name: "pod ending still vouches", change: func(w *apiObjects) { w.pod.DeletionTimestamp = &soon }},
		{name: "pod ended a minute ago", change: func(w *apiObjects) { w.pod.DeletionTimestamp = &past },
			want: "invalidated"},
		{name: "node beside a pod only informs", change: func(w *apiObjects) { w.node = nil }},
		{name: "node gone", request: func(w *apiObjects) TokenRequest {
			return TokenRequest{Account: w.account, Node: w.node, Audiences: []string{issuer}, Lifetime: time.Hour}
		}, change: func(w *apiObjects) { w.node = nil }, want: "invalidated"},
		{name: "secret made anew", request: func(w *apiObjects) TokenRequest {
			return TokenRequest{Account: w.account, Secret: w.secret, Audiences: []string{issuer}, Lifetime: time.Hour}
		}, change: func(w *apiObjects) { w.secret.UID = "2" }, want: "does not match service account secret ref claim"},
		{name: "another audience", request: func(w *apiObjects) TokenRequest {
			return TokenRequest{Account: w.account, Audiences: []string{"vault"}, Lifetime: time.Hour}
		}, want: `token audiences ["vault"] is invalid for the target audiences ["` + issuer + `"]`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := noError()
			if c.request == nil {
				c.request = bound
			}
			if c.by == nil {
				c.by = k
			}
			if c.issuer == "" {
				c.issuer = issuer
			}
			raw := mint(t, c.by, c.issuer, c.request(w), now)
			if c.change != nil {
				c.change(w)
			}
			v, err := NewValidator(ValidatorOptions{
				Issuers: []string{issuer}, Audiences: []string{issuer}, Keys: []crypto.PublicKey{k.Public()},
				Objects: w,
				Now:     func() time.Time { return now.Add(c.after) },
			})
			if err != nil {
				t.Fatal(err)
			}
			resp, ok, err := v.AuthenticateToken(t.Context(), raw)
			switch {
			case c.want == "":
				if err != nil || !ok {
					t.Fatalf("refused: %v", err)
				}
				if resp.User.GetName() != "system:serviceaccount:ns:sa" || resp.User.GetUID() != "sa-uid" {
					t.Errorf("user %v", resp.User)
				}
			case c.want == "-":
				if ok || err != nil {
					t.Errorf("ok %v, error %v: want no opinion", ok, err)
				}
			case ok || err == nil || !strings.Contains(err.Error(), c.want):
				t.Errorf("ok %v, error %v, want %q", ok, err, c.want)
			}
		})
	}
}

func TestAudiencesAreAListEvenIfThereIsOne(t *testing.T) {
	w, k, now := noError(), key(t), time.Now()
	payload, err := base64.RawURLEncoding.DecodeString(
		strings.Split(mint(t, k, issuer, TokenRequest{Account: w.account, Audiences: []string{"vault"},
			Lifetime: time.Hour}, now), ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(payload), `"aud":["vault"]`) {
		t.Errorf("claims %s", payload)
	}
	for _, aud := range []string{`"vault"`, `["vault"]`} {
		var c Claims
		if err := json.Unmarshal([]byte(`{"aud":`+aud+`}`), &c); err != nil || len(c.Audience) != 1 ||
			c.Audience[0] != "vault" {
			t.Errorf("%s read as %v (%v)", aud, c.Audience, err)
		}
	}
}

func TestATokenSaysWhoAndWhere(t *testing.T) {
	w, k, now := noError(), key(t), time.Now()
	raw := mint(t, k, issuer, TokenRequest{Account: w.account, Pod: w.pod, Node: w.node,
		Audiences: []string{issuer, "vault"}, Lifetime: time.Hour, WarnAfter: time.Minute, ID: "id-1"}, now)
	v, err := NewValidator(ValidatorOptions{Issuers: []string{issuer}, Audiences: []string{issuer},
		Keys: []crypto.PublicKey{k.Public()}, Objects: w})
	if err != nil {
		t.Fatal(err)
	}
	resp, ok, err := v.AuthenticateToken(authenticator.WithAudiences(t.Context(), authenticator.Audiences{"vault"}),
		raw)
	if err != nil || !ok {
		t.Fatalf("got %v, %v, want no error and found true", ok, err)
	}
	if len(resp.Audiences) != 1 || resp.Audiences[0] != "vault" {
		t.Errorf("audiences: got %v, want one of them and [0] vault", resp.Audiences)
	}
	for k, want := range map[string]string{
		"authentication.kubernetes.io/pod-name": "p", "authentication.kubernetes.io/pod-uid": "p-uid",
		"authentication.kubernetes.io/node-name": "n", "authentication.kubernetes.io/node-uid": "n-uid",
		"authentication.kubernetes.io/credential-id": "JTI=id-1",
	} {
		if got := resp.User.GetExtra()[k]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %v, want %s", k, got, want)
		}
	}
	groups := strings.Join(resp.User.GetGroups(), " ")
	if groups != "system:serviceaccounts system:serviceaccounts:ns" {
		t.Errorf("groups %s, want \"system:serviceaccounts system:serviceaccounts:ns\"", groups)
	}
}

func TestATamperedTokenIsRefused(t *testing.T) {
	w, k := noError(), key(t)
	raw := mint(t, k, issuer, TokenRequest{Account: w.account, Audiences: []string{issuer}, Lifetime: time.Hour},
		time.Now())
	v, err := NewValidator(ValidatorOptions{Issuers: []string{issuer}, Audiences: []string{issuer},
		Keys: []crypto.PublicKey{k.Public()}, Objects: w})
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(raw, ".")
	none := "eyJhbGciOiJub25lIn0" // {"alg":"none"}
	hmac := "eyJhbGciOiJIUzI1NiJ9"
	for name, bad := range map[string]string{
		"signature cut": parts[0] + "." + parts[1] + ".", "no algorithm": none + "." + parts[1] + ".",
		"none with signature": none + "." + parts[1] + "." + parts[2],
		"symmetric":           hmac + "." + parts[1] + "." + parts[2],
		"payload of another":  parts[0] + "." + mintPayload(t, k, w) + "." + parts[2],
		"two dots":            "..", "empty": "", "long": strings.Repeat("a", 1<<20), "not base64": "a.!.c",
	} {
		if _, ok, _ := v.AuthenticateToken(t.Context(), bad); ok {
			t.Errorf("%s: accepted", name)
		}
	}
}

func mintPayload(t *testing.T, k crypto.Signer, w *apiObjects) string {
	w.account.Name = "admin"
	defer func() { w.account.Name = "sa" }()
	return strings.Split(mint(t, k, issuer, TokenRequest{Account: w.account, Audiences: []string{issuer},
		Lifetime: time.Hour}, time.Now()), ".")[1]
}

func FuzzAuthenticateToken(f *testing.F) {
	w, k := noError(), key(f)
	raw := mint(f, k, issuer, TokenRequest{Account: w.account, Pod: w.pod, Audiences: []string{issuer},
		Lifetime: time.Hour}, time.Now())
	for _, s := range []string{raw, "", "..", "a.b.c", "eyJhbGciOiJFUzI1NiJ9.e30.", raw[:len(raw)/2], raw + raw} {
		f.Add(s)
	}
	v, err := NewValidator(ValidatorOptions{Issuers: []string{issuer}, Audiences: []string{issuer},
		Keys: []crypto.PublicKey{k.Public()}, Objects: w})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, ok, _ := v.AuthenticateToken(t.Context(), s); ok && s != raw {
			// An ECDSA signature has a second form; anything else accepted would be a forgery.
			if !strings.HasPrefix(s, raw[:strings.LastIndexByte(raw, '.')]) {
				t.Errorf("accepted %q", s)
			}
		}
	})
}

func TestKeysAndDocuments(t *testing.T) {
	dir := t.TempDir()
	ec := key(t)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, _ := x509.MarshalECPrivateKey(ec)
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := ReadPrivate(write("ec", "EC PRIVATE KEY", ecDER)); err != nil {
		t.Error(err)
	}
	pubs, err := ReadPublic(write("rsa", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rs)))
	if err != nil || len(pubs) != 1 {
		t.Fatalf("got %v, %v, want no error and 1 in pubs", pubs, err)
	}
	for _, bad := range []string{write("cat", "CAT", []byte("x")), write("broken", "EC PRIVATE KEY", []byte("x")),
		filepath.Join(dir, "absent")} {
		if _, err := ReadPrivate(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: error %v must name the file", bad, err)
		}
	}
	d, err := NewOpenIDMetadata(issuer, "", []crypto.PublicKey{ec.Public(), rs.Public()})
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	d.Keys(rec, httptest.NewRequest("GET", JWKSPath, nil))
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(rec.Body.Bytes(), &set); err != nil || len(set.Keys) != 2 ||
		set.Keys[0].Algorithm != "ES256" || set.Keys[1].Algorithm != "RS256" {
		t.Errorf("keys %s: %v", rec.Body, err)
	}
	rec = httptest.NewRecorder()
	d.Config(rec, httptest.NewRequest("GET", ConfigPath, nil))
	if !strings.Contains(rec.Body.String(),
		`"jwks_uri":"https://kubernetes.default.svc.cluster.local/openid/v1/jwks"`) {
		t.Errorf("config %s", rec.Body)
	}
	rec = httptest.NewRecorder()
	if d.Config(rec, httptest.NewRequest("POST", ConfigPath, nil)); rec.Code != 405 {
		t.Errorf("POST answered %d, want 405", rec.Code)
	}
	for accept, want := range map[string]int{"": 200, "*/*": 200, "application/jwk-set+json": 200,
		"text/html, */*;q=0.1": 200,
		"application/json":     406, "application/*": 406} {
		rec, r := httptest.NewRecorder(), httptest.NewRequest("GET", JWKSPath, nil)
		r.Header.Set("Accept", accept)
		d.Keys(rec, r)
		if rec.Code != want || want == 406 && !strings.Contains(rec.Body.String(),
			`"406: Not Acceptable\n\nAvailable representations: application/jwk-set+json"`) {
			t.Errorf("Accept %q: got %d %s, want %d", accept, rec.Code, rec.Body, want)
		}
	}
}
