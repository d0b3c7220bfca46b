package auth

import (
	"crypto/x509"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/utils/lru"
)

const (
	// certificateCacheTTL is how long a verified client certificate is accepted without verifying
	// it again, but not beyond its expiry.
	certificateCacheTTL = tokenCacheTTL
	// maxCachedCertificates bounds the cache.
	maxCachedCertificates = 4096
)

// certificateCache is an authenticator that caches the successful responses of another, the x509
// authenticator, per connection's certificate: verifying the authority's signature is the largest
// part of authentication. An entry is valid only for the pool of authorities that verified it. Safe
// for concurrent use.
type certificateCache struct {
	delegate authenticator.Request
	roots    func() (x509.VerifyOptions, bool)
	cache    *lru.Cache // from the connection's *x509.Certificate to cachedResponse
	now      func() time.Time
}

// cachedResponse is one cached authentication.
type cachedResponse struct {
	roots    *x509.CertPool // that verified it
	expiry   time.Time
	response authenticator.Response
}

// newCertificateCache returns a cache in front of next; roots returns the current authorities.
func newCertificateCache(next authenticator.Request, roots func() (x509.VerifyOptions, bool)) *certificateCache {
	return &certificateCache{delegate: next, roots: roots, cache: lru.New(maxCachedCertificates), now: time.Now}
}

// AuthenticateRequest implements authenticator.Request.
func (r *certificateCache) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if req.TLS == nil || len(req.TLS.PeerCertificates) != 1 { // intermediates are not part of the key
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

// withFrontProxyHeaders calls next only for requests with one of the headers: without a user header
// the front proxy authenticator authenticates nobody.
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
