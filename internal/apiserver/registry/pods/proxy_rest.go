package pods

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/registry/rest"
)

// ProxyOptions constrains P to *O, the options of a proxy subresource.
type ProxyOptions[O any] interface {
	*O
	runtime.Object
}

// ProxyREST is the proxy subresource of pods, nodes and services: requests of any method are passed
// to the address that the name in the URL stands for.
type ProxyREST[O any, P ProxyOptions[O]] struct {
	noDestroy
	// Resource is the resource in singular, for errors.
	Resource string
	// Path returns the path of the options: what follows the subresource in the URL.
	Path func(P) string
	// Locate returns where a name leads and the transport to there. Its errors are the response's.
	Locate func(context.Context, ProxyName) (*url.URL, http.RoundTripper, error)
}

// ProxyName is the parsed name of a proxy request: [scheme:]NAME[:port]. Scheme and Port may be
// empty.
type ProxyName struct{ Scheme, Name, Port string }

// New implements rest.Storage.
func (r *ProxyREST[O, P]) New() runtime.Object { return P(new(O)) }

// ConnectMethods implements rest.Connecter.
func (r *ProxyREST[O, P]) ConnectMethods() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodHead, http.MethodOptions}
}

// NewConnectOptions implements rest.Connecter.
func (r *ProxyREST[O, P]) NewConnectOptions() (runtime.Object, bool, string) {
	return P(new(O)), true, "path"
}

// Connect implements rest.Connecter.
func (r *ProxyREST[O, P]) Connect(ctx context.Context, id string, options runtime.Object,
	responder rest.Responder) (http.Handler, error) {
	o, ok := options.(P)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return nil, errors.NewBadRequest(fmt.Sprintf("invalid %s request %q", r.Resource, id))
	}
	u, transport, err := r.Locate(ctx, ProxyName{Scheme: scheme, Name: name, Port: port})
	if err != nil {
		return nil, err
	}
	return proxyHandler(u, r.Path(o), transport, responder), nil
}

// proxyHandler returns a handler that passes a request with its query on to path below target.
// Upgrade requests are passed on as they are. An empty path stays empty: GET and HEAD of it get a
// 301 to the same address with a slash at its end, so that relative links of a page lead through
// the proxy too.
func proxyHandler(target *url.URL, path string, t http.RoundTripper, responder rest.Responder) http.Handler {
	u := *target
	u.Path = utilnet.JoinPreservingTrailingSlash(u.Path, path)
	return proxy.NewUpgradeAwareHandler(&u, t, true, false, proxy.NewErrorResponder(responder))
}
