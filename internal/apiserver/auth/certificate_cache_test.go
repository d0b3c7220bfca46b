package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// A certificate is verified once in a while; anew when the authorities change, when it has run out,
// when it was refused, and on another connection's copy.
func TestCertificateCache(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	roots, asked := x509.NewCertPool(), 0
	var refuse error
	r := newCertificateCache(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		asked++
		return &authenticator.Response{User: &user.DefaultInfo{Name: "ann"}}, refuse == nil, refuse
	}), func() (x509.VerifyOptions, bool) { return x509.VerifyOptions{Roots: roots}, true })
	r.now = func() time.Time { return now }
	long, short := &x509.Certificate{NotAfter: now.Add(time.Hour)},
		&x509.Certificate{NotAfter: now.Add(25 * time.Second)}
	ask := func(purpose string, calls int, chain ...*x509.Certificate) {
		t.Helper()
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		if chain != nil {
			req.TLS = &tls.ConnectionState{PeerCertificates: chain}
		}
		before := asked
		res, ok, err := r.AuthenticateRequest(req)
		if !errors.Is(err, refuse) || ok != (refuse == nil) || ok && res.User.GetName() != "ann" {
			t.Fatalf("%s: got %v %t %v, want ann unless it is refused, error %v", purpose, res, ok, err, refuse)
		}
		if asked-before != calls {
			t.Errorf("%s: verified %d times, want %d", purpose, asked-before, calls)
		}
	}
	ask("at first", 1, long)
	ask("again", 0, long)
	ask("another connection", 1, short)
	ask("with an intermediate", 1, long, short)
	ask("with an intermediate, again", 1, long, short)
	ask("without a certificate", 1)
	roots = x509.NewCertPool()
	ask("the authorities changed", 1, long)
	ask("the authorities changed, again", 0, long)
	now = now.Add(certificateCacheTTL)
	ask("later", 1, long)
	now = now.Add(certificateCacheTTL)
	ask("before it runs out", 1, short)
	now = now.Add(5 * time.Second)
	ask("it has run out", 1, short)
	ask("it has run out, again", 1, short)
	refuse = errors.New("unknown authority")
	roots = x509.NewCertPool()
	ask("refused", 1, long)
	ask("refused, again", 1, long)
}

// A front proxy's headers are asked about where there are some.
func TestRequestHeaderAuthentication(t *testing.T) {
	asked := 0
	n := withFrontProxyHeaders(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		asked++
		return nil, true, nil
	}), []string{"X-Remote-User"})
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	if _, ok, err := n.AuthenticateRequest(req); ok || err != nil || asked != 0 {
		t.Errorf("no headers: got %t, %v and %d questions, want none", ok, err, asked)
	}
	req.Header.Set("x-remote-user", "ann")
	if _, ok, _ := n.AuthenticateRequest(req); !ok || asked != 1 {
		t.Errorf("one header: got %t and %d questions, want true and 1", ok, asked)
	}
}
