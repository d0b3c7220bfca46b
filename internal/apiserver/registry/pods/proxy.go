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
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/registry/rest"
)

// proxyREST is pods/proxy: HTTP straight to the Pod's address.
type proxyREST struct {
	noDestroy
	pods      *podStore
	transport http.RoundTripper
}

var _ rest.Connecter = &proxyREST{}

// ProxyMethods are the HTTP methods that the proxies pass through.
func ProxyMethods() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodHead, http.MethodOptions}
}

func (r *proxyREST) New() runtime.Object      { return &v1.PodProxyOptions{} }
func (r *proxyREST) ConnectMethods() []string { return ProxyMethods() }
func (r *proxyREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &v1.PodProxyOptions{}, true, "path"
}

// Connect proxies to [scheme:]NAME[:port] of a Pod.
func (r *proxyREST) Connect(ctx context.Context, id string, options runtime.Object,
	responder rest.Responder) (http.Handler, error) {
	o, ok := options.(*v1.PodProxyOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return nil, errors.NewBadRequest(fmt.Sprintf("invalid pod request %q", id))
	}
	p, err := r.pods.pod(ctx, name)
	if err != nil {
		return nil, err
	}
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
	u := &url.URL{Scheme: scheme, Host: p.Status.PodIP}
	switch {
	case port != "":
		u.Host = net.JoinHostPort(p.Status.PodIP, port)
	case strings.Contains(p.Status.PodIP, ":"):
		u.Host = "[" + p.Status.PodIP + "]"
	}
	return ProxyHandler(u, o.Path, r.transport, responder), nil
}

// ProxyHandler passes a request and its query on to path of the target. An empty path is kept
// empty: GET and HEAD of it are answered with 301 to the same address with a slash at its end, so
// that what a page refers to is asked of the proxy too. Upgrade requests are passed on as they are.
func ProxyHandler(target *url.URL, path string, t http.RoundTripper, responder rest.Responder) http.Handler {
	u := *target
	u.Path = utilnet.JoinPreservingTrailingSlash(u.Path, path)
	return proxy.NewUpgradeAwareHandler(&u, t, true, false, proxy.NewErrorResponder(responder))
}

// ProxyTransport carries proxy requests straight to Pods, endpoints of Services and other ports of
// nodes. Their certificates are not checked: they are asked by address, which no certificate of
// theirs is expected to name.
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
