package pods

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/registry/rest"
)

// proxyREST is pods/proxy: HTTP straight to the Pod's address.
type proxyREST struct {
	noop
	pods      *podStore
	transport http.RoundTripper
}

var _ rest.Connecter = &proxyREST{}

// ProxyMethods are the HTTP methods that the proxies pass through.
func ProxyMethods() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}
}

func (r *proxyREST) New() runtime.Object      { return &v1.PodProxyOptions{} }
func (r *proxyREST) ConnectMethods() []string { return ProxyMethods() }
func (r *proxyREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &v1.PodProxyOptions{}, true, "path"
}

// Connect proxies to [scheme:]NAME[:port] of a Pod.
func (r *proxyREST) Connect(ctx context.Context, id string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
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
	u := &url.URL{Scheme: scheme, Host: p.Status.PodIP, Path: slashed(o.Path)}
	if port != "" {
		u.Host = net.JoinHostPort(p.Status.PodIP, port)
	}
	h := proxy.NewUpgradeAwareHandler(u, r.transport, true, false, proxy.NewErrorResponder(responder))
	return h, nil
}

// slashed makes a sub path absolute.
func slashed(path string) string { return "/" + strings.TrimPrefix(path, "/") }
