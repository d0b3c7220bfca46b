package auth

import (
	"crypto/x509"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/utils/lru"
)

const (
	// certificateCacheTTL is how long a client certificate that was found good is taken without
	// verifying it again; less where it runs out before.
	certificateCacheTTL = tokenCacheTTL
	// maxCachedCertificates is how many are remembered.
	maxCachedCertificates = 4096
)

// certificateCache verifies a client's certificate once per connection and some seconds: an
// authority's signature costs more than the rest of who somebody is. What it takes is what the
// authenticator behind it took, from the same authorities.
type certificateCache struct {
	delegate authenticator.Request
	roots    func() (x509.VerifyOptions, bool)
	cache    *lru.Cache // of the connection's *x509.Certificate to acquaintance
	now      func() time.Time
}

type cachedResponse struct {
	roots    *x509.CertPool // that vouched
	expiry   time.Time
	response authenticator.Response
}

func newCertificateCache(next authenticator.Request, roots func() (x509.VerifyOptions, bool)) *certificateCache {
	return &certificateCache{delegate: next, roots: roots, cache: lru.New(maxCachedCertificates), now: time.Now}
}

// AuthenticateRequest implements authenticator.Request.
func (r *certificateCache) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if req.TLS == nil || len(req.TLS.PeerCertificates) != 1 { // intermediates differ between connections
		return r.delegate.AuthenticateRequest(req)
	}
	cert, now := req.TLS.PeerCertificates[0], r.now()
	o, ok := r.roots()
	if !ok {
		return r.delegate.AuthenticateRequest(req)
	}
	if got, ok := r.cache.Get(cert); ok {
		if a := got.(cachedResponse); a.roots == o.Roots && now.Before(a.expiry) {
			return &a.response, true, nil
		}
	}
	res, ok, err := r.delegate.AuthenticateRequest(req)
	if ok && err == nil {
		until := now.Add(certificateCacheTTL)
		if cert.NotAfter.Before(until) {
			until = cert.NotAfter
		}
		r.cache.Add(cert, cachedResponse{roots: o.Roots, expiry: until, response: *res})
	}
	return res, ok, err
}

// withFrontProxyHeaders asks about the headers of front proxies only where there are some: without
// them nobody is named, whoever asks.
func withFrontProxyHeaders(next authenticator.Request, headers []string) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		for _, h := range headers {
			if req.Header.Get(h) != "" {
				return next.AuthenticateRequest(req)
			}
		}
		return nil, false, nil
	})
}
