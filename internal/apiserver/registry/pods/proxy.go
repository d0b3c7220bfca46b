package pods

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/registry/rest"
)

// newProxyREST returns pods/proxy: HTTP to a Pod's IP.
func newProxyREST(p *podStore, t http.RoundTripper) rest.Storage {
	return &ProxyREST[v1.PodProxyOptions, *v1.PodProxyOptions]{Resource: "pod",
		Path: func(o *v1.PodProxyOptions) string { return o.Path },
		Locate: func(ctx context.Context, n ProxyName) (*url.URL, http.RoundTripper, error) {
			u, err := p.proxyLocation(ctx, n)
			return u, t, err
		}}
}

// proxyLocation returns the URL of [scheme:]NAME[:port] of a Pod; without a port its first
// container port is used, if it has one. Addresses that are not global unicast are refused.
func (s *podStore) proxyLocation(ctx context.Context, n ProxyName) (*url.URL, error) {
	p, err := s.pod(ctx, n.Name)
	if err != nil {
		return nil, err
	}
	port := n.Port
	if port == "" {
		for i := range p.Spec.Containers {
			if len(p.Spec.Containers[i].Ports) > 0 {
				port = fmt.Sprintf("%d", p.Spec.Containers[i].Ports[0].ContainerPort)
				break
			}
		}
	}
	if ip := net.ParseIP(p.Status.PodIP); ip == nil || !ip.IsGlobalUnicast() {
		return nil, errors.NewBadRequest("address not allowed")
	}
	u := &url.URL{Scheme: n.Scheme, Host: p.Status.PodIP}
	switch {
	case port != "":
		u.Host = net.JoinHostPort(p.Status.PodIP, port)
	case strings.Contains(p.Status.PodIP, ":"):
		u.Host = "[" + p.Status.PodIP + "]"
	}
	return u, nil
}

// ProxyTransport returns the transport of proxy requests to Pods, endpoints of Services and other
// ports of nodes. It does not verify their certificates: requests go to addresses, which their
// certificates need not name.
func (c Connections) ProxyTransport() http.RoundTripper {
	if c.Pods != nil {
		return c.Pods
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}
}
