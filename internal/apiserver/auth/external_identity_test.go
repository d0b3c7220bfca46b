package auth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/apiserver/auth"
	"github.com/gantry-project/gantry/internal/apiserver/auth/oidc"
	"github.com/gantry-project/gantry/internal/apiserver/auth/webhook"
)

// bearing makes a client over TLS with a token.
func (s *server) bearing(t testing.TB, token string) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: "https://" + s.Addr().String(), BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: s.files.CA.Cert}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// whoami asks the server who the bearer of a token is.
func (s *server) whoami(t testing.TB, token string) (authenticationv1.UserInfo, error) {
	t.Helper()
	r, err := s.bearing(t, token).AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return r.Status.UserInfo, nil
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A new node comes in by a bootstrap token, is what the Secret says, and comes in no more when the
// Secret is gone.
func TestBootstrapTokenLetsIn(t *testing.T) {
	s := serve(t, auth.Options{BootstrapTokens: true})
	secrets := s.clientAs(t, master()).CoreV1().Secrets("kube-system")
	_, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef",
			"usage-bootstrap-authentication": "true"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	who, err := s.whoami(t, "abcdef.0123456789abcdef")
	if err != nil || who.Username != "system:bootstrap:abcdef" || !strings.Contains(fmt.Sprint(who.Groups),
		"system:bootstrappers") {
		t.Errorf("got %+v, %v, want no error, Username system:bootstrap:abcdef and who.Groups with "+
			"system:bootstrappers", who, err)
	}
	if _, err := s.whoami(t, "abcdef.0123456789abcdee"); err == nil {
		t.Error("a wrong secret was taken")
	}
	if err := secrets.Delete(t.Context(), "bootstrap-token-abcdef", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.whoami(t, "abcdef.0123456789abcdef"); err == nil {
		t.Error("a token without its Secret was taken")
	}
}

// issuer is an OpenID issuer of this test.
type issuer struct {
	*httptest.Server
	key *rsa.PrivateKey
	ca  string
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(
			jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "RS256",
				Use: "sig"}}})
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	i.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}))
	return i
}

func (i *issuer) token(t testing.TB, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}},
		nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"iss": i.URL, "aud": "gantry", "sub": "carol", "exp": time.Now().Add(time.Hour).Unix(),
		"iat": time.Now().Unix()}
	for k, v := range claims {
		all[k] = v
	}
	raw, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// eventually asks until there is no error: an issuer's keys are fetched in the background.
func (s *server) eventually(t testing.TB, token string) authenticationv1.UserInfo {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		who, err := s.whoami(t, token)
		if err == nil {
			return who
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Tokens of an issuer in the AuthenticationConfiguration are taken with the mapping it says; others
// are not.
func TestIssuerByConfiguration(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	file := write(t, "authn.yaml", fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: %s
    audiences: [gantry]
    certificateAuthority: |
%s
  claimMappings:
    username: {expression: '"ext:" + claims.sub'}
    groups: {claim: roles, prefix: "ext:"}
    uid: {claim: sub}
    extra: [{key: example.com/team, valueExpression: "claims.?team.orValue('none')"}]
  claimValidationRules:
  - {claim: tier, requiredValue: gold}
  - {expression: "claims.exp - claims.iat <= 7200", message: no token may live for more than two hours}
  userValidationRules:
  - {expression: "!user.username.endsWith('mallory')", message: mallory may not}
anonymous:
  enabled: true
  conditions: [{path: /livez}]
`, i.URL, "      "+strings.ReplaceAll(strings.TrimSpace(i.ca), "\n", "\n      ")))
	s := serve(t, auth.Options{OIDC: oidc.Options{File: file}})
	// token is one that passes, with changes.
	token := func(claims map[string]any) string {
		all := map[string]any{"tier": "gold"}
		maps.Copy(all, claims)
		return i.token(t, all)
	}
	who := s.eventually(t, token(map[string]any{"roles": []string{"dev"}, "team": "red"}))
	if who.Username != "ext:carol" || !strings.Contains(fmt.Sprint(who.Groups), "ext:dev") || who.UID != "carol" ||
		fmt.Sprint(who.Extra["example.com/team"]) != "[red]" {
		t.Errorf("got %+v, want Username ext:carol, who.Groups with ext:dev, UID carol and Extra[example.com/team] "+
			"[red]", who)
	}
	for name, token := range map[string]string{
		"other audience":         token(map[string]any{"aud": "else"}),
		"expired":                token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
		"rule":                   token(map[string]any{"sub": "mallory"}),
		"other issuer's key":     newIssuer(t).token(t, map[string]any{"iss": i.URL, "tier": "gold"}),
		"claim that is required": token(map[string]any{"tier": "silver"}), "claim that is absent": i.token(t, nil),
		"rule over claims": token(map[string]any{"exp": time.Now().Add(5 * time.Hour).Unix()}),
	} {
		if who, err := s.whoami(t, token); err == nil {
			t.Errorf("%s: taken as %+v", name, who)
		}
	}
	for path, want := range map[string]int{"/livez": 200, "/readyz": 401} {
		if code, _ := s.ask(t, http.MethodGet, path, "", ""); code != want {
			t.Errorf("%s without credentials: %d, want %d as the configuration has it", path, code, want)
		}
	}
}

// The flags stand for one issuer, with upstream's prefixes.
func TestIssuerByFlags(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	f := oidc.Flags{IssuerURL: i.URL, ClientID: "gantry", CAFile: write(t, "ca.crt", i.ca), GroupsClaim: "groups",
		SigningAlgs: []string{"RS256"}, RequiredClaims: map[string]string{"hd": "example.com"}}
	s := serve(t, auth.Options{OIDC: oidc.Options{Flags: f}})
	who := s.eventually(t, i.token(t, map[string]any{"groups": []string{"ops"}, "hd": "example.com"}))
	if who.Username != i.URL+"#carol" || !strings.Contains(fmt.Sprint(who.Groups), "ops") {
		t.Errorf("got %+v, want Username %v and who.Groups with ops", who, i.URL+"#carol")
	}
	if _, err := s.whoami(t, i.token(t, nil)); err == nil {
		t.Error("a token without the required claim was taken")
	}
}

// A configuration that is wrong is refused with the field's name.
func TestWrongConfigurations(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		o    oidc.Options
		want string
	}{
		"field": {
			oidc.Options{
				File: write(t, "a",
					"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: "+
						"{url: 'http://x', audiences: [a]}\n")}, "jwt[0].issuer.url"},
		"unknown": {
			oidc.Options{
				File: write(t, "a",
					"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwts: []\n")},
			`unknown field "jwts"`},
		"kind": {
			oidc.Options{
				File: write(t, "a",
					"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: []\n")},
			"expected AuthenticationConfiguration"},
		"own": {
			oidc.Options{
				File: write(t, "a",
					"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: "+
						"{url: 'https://own', audiences: [a]}\n"), Disallowed: []string{"https://own"}}, "issuer.url"},
		"half": {oidc.Options{Flags: oidc.Flags{IssuerURL: "https://x"}}, "--oidc-client-id"},
		"both": {oidc.Options{File: "x", Flags: oidc.Flags{IssuerURL: "https://x", ClientID: "c"}},
			"exclude each other"},
		"no file":  {oidc.Options{File: "/nowhere"}, "/nowhere"},
		"no bytes": {oidc.Options{File: write(t, "a", "")}, "is empty"},
	} {
		if _, err := oidc.New(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, tt.want)
		}
	}
	for name, tt := range map[string]struct {
		c    webhook.AuthorizationOptions
		want string
	}{
		"mode":    {webhook.AuthorizationOptions{Modes: []string{"Nope"}}, "Nope"},
		"no file": {webhook.AuthorizationOptions{Modes: []string{"Webhook"}}, "--authorization-webhook-config-file"},
		"no mode": {webhook.AuthorizationOptions{WebhookFile: "x"}, "--authorization-mode"},
		"both":    {webhook.AuthorizationOptions{File: "x", Modes: []string{"RBAC"}}, "exclude each other"},
		"field": {webhook.AuthorizationOptions{
			File: write(t, "a",
				"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: "+
					"Webhook, name: w, webhook: {timeout: 60s}}]\n")},
			"authorizers[0].timeout"},
	} {
		if _, err := webhook.NewAuthorizer(tt.c, webhook.BuiltInAuthorizers{}); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, tt.want)
		}
	}
}

// startWebhookServer is a server that answers TokenReviews and SubjectAccessReviews, and its
// kubeconfig.
func startWebhookServer(t testing.TB) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/tokens", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		if review.Spec.Token == "dave-token" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true,
				User: authenticationv1.UserInfo{Username: "dave", Groups: []string{"hooked"}}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	mux.HandleFunc("/access", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = review.Spec.User == "dave" && a != nil && a.Resource == "configmaps"
		review.Status.Denied = a != nil && a.Namespace == "forbidden"
		review.Status.Reason = "the hook says so"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	hook := httptest.NewServer(mux)
	t.Cleanup(hook.Close)
	return hook.URL
}

func kubeconfig(t testing.TB, url string) string {
	return write(t, "hook.kubeconfig",
		fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '%s'}}]\ncontexts: [{name: "+
			"c, context: {cluster: c, user: u}}]\ncurrent-context: c\nusers: [{name: u, user: {}}]\n", url))
}

// A webhook says who a token is, and one says what he may do; what it denies nobody else allows;
// RBAC is asked as well.
func TestAuthenticationAndAuthorizationWebhooks(t *testing.T) {
	t.Parallel()
	url := startWebhookServer(t)
	file := write(t, "authz.yaml", fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: outside
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
    matchConditions: [{expression: "has(request.resourceAttributes) && request.user == 'dave'"}]
- {type: Node, name: node}
- {type: RBAC, name: rbac}
`, kubeconfig(t, url+"/access")))
	s := serve(t, auth.Options{TokenWebhook: webhook.TokenOptions{File: kubeconfig(t, url+"/tokens"), Version: "v1"},
		Authorization: webhook.AuthorizationOptions{File: file}})
	who, err := s.whoami(t, "dave-token") // RBAC allows it
	if err != nil || who.Username != "dave" || !strings.Contains(fmt.Sprint(who.Groups), "hooked") {
		t.Fatalf("got %+v, %v, want no error, Username dave and who.Groups with hooked", who, err)
	}
	dave := s.bearing(t, "dave-token").CoreV1()
	if _, err := dave.ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("what the hook allows: %v, want no error", err)
	}
	if _, err := dave.Secrets("default").List(t.Context(), metav1.ListOptions{}); err == nil ||
		!strings.Contains(err.Error(), "the hook says so") {
		t.Errorf("what nobody allows: %v", err)
	}
	if _, err := s.bearing(t, "nobody").CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err ==
		nil {
		t.Error("an unknown token was taken")
	}
	if _, err := s.bearing(t, "alice-token").CoreV1().ConfigMaps("default").List(t.Context(),
		metav1.ListOptions{}); err == nil {
		t.Error("the hook's answer about dave was given to alice")
	}
}

// The mode Webhook by flags.
func TestWebhookByFlags(t *testing.T) {
	t.Parallel()
	url := startWebhookServer(t)
	s := serve(t, auth.Options{
		TokenWebhook: webhook.TokenOptions{File: kubeconfig(t, url+"/tokens"), Version: "v1"},
		Authorization: webhook.AuthorizationOptions{Modes: []string{"Node", "RBAC", "Webhook"},
			WebhookFile: kubeconfig(t, url+"/access"), Version: "v1"},
	})
	if _, err := s.bearing(t, "dave-token").CoreV1().ConfigMaps("default").List(t.Context(),
		metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}
