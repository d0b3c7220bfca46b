package auth

import (
	"crypto/x509"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/utils/lru"
)

const (
	// certificateMemory is how long a client certificate that was found good is taken without verifying it again; less where it runs out before.
	certificateMemory = tokenMemory
	// mostCertificates is how many are remembered.
	mostCertificates = 4096
)

// rememberer verifies a client's certificate once per connection and some seconds: an authority's signature costs more than the rest of who
// somebody is. What it takes is what the authenticator behind it took, from the same authorities.
type rememberer struct {
	next  authenticator.Request
	roots func() (x509.VerifyOptions, bool)
	known *lru.Cache // of the connection's *x509.Certificate to acquaintance
	now   func() time.Time
}

type acquaintance struct {
	roots    *x509.CertPool // that vouched
	until    time.Time
	response authenticator.Response
}

func remember(next authenticator.Request, roots func() (x509.VerifyOptions, bool)) *rememberer {
	return &rememberer{next: next, roots: roots, known: lru.New(mostCertificates), now: time.Now}
}

// AuthenticateRequest implements authenticator.Request.
func (r *rememberer) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if req.TLS == nil || len(req.TLS.PeerCertificates) != 1 { // intermediates differ between connections
		return r.next.AuthenticateRequest(req)
	}
	cert, now := req.TLS.PeerCertificates[0], r.now()
	o, ok := r.roots()
	if !ok {
		return r.next.AuthenticateRequest(req)
	}
	if got, ok := r.known.Get(cert); ok {
		if a := got.(acquaintance); a.roots == o.Roots && now.Before(a.until) {
			return &a.response, true, nil
		}
	}
	res, ok, err := r.next.AuthenticateRequest(req)
	if ok && err == nil {
		until := now.Add(certificateMemory)
		if cert.NotAfter.Before(until) {
			until = cert.NotAfter
		}
		r.known.Add(cert, acquaintance{roots: o.Roots, until: until, response: *res})
	}
	return res, ok, err
}

// named asks about the headers of front proxies only where there are some: without them nobody is named, whoever asks.
func named(next authenticator.Request, headers []string) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		for _, h := range headers {
			if req.Header.Get(h) != "" {
				return next.AuthenticateRequest(req)
			}
		}
		return nil, false, nil
	})
}
