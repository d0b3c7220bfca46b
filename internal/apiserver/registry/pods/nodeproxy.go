package pods

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// NodeProxy is nodes/proxy: the kubelet's own API, under the API server's authorization of
// nodes/proxy.
func (c Connections) NodeProxy(d resourcedef.Deps) map[string]rest.Storage {
	return map[string]rest.Storage{"proxy": &nodeProxyREST{kubelets: &kubeletLocator{Connections: c, lookup: d.Lookup},
		transport: c.ProxyTransport()}}
}

type nodeProxyREST struct {
	noDestroy
	kubelets  *kubeletLocator
	transport http.RoundTripper // to ports that are not the kubelet's
}

var _ rest.Connecter = &nodeProxyREST{}

func (r *nodeProxyREST) New() runtime.Object      { return &v1.NodeProxyOptions{} }
func (r *nodeProxyREST) ConnectMethods() []string { return ProxyMethods() }
func (r *nodeProxyREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &v1.NodeProxyOptions{}, true, "path"
}

// Connect proxies to the kubelet of NODE or NODE:PORT with the kubelet's port, else to
// [scheme:]NODE:PORT.
func (r *nodeProxyREST) Connect(ctx context.Context, id string, options runtime.Object,
	responder rest.Responder) (http.Handler, error) {
	o, ok := options.(*v1.NodeProxyOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return nil, errors.NewBadRequest(fmt.Sprintf("invalid node request %q", id))
	}
	u, err := r.kubelets.location(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := r.proxyable(ctx, u.Hostname()); err != nil {
		return nil, errors.NewBadRequest(err.Error())
	}
	if port == "" || port == u.Port() {
		return ProxyHandler(u, o.Path, kubeletTransport{r.kubelets.Kubelet, u.Hostname()}, responder), nil
	}
	u = &url.URL{Scheme: scheme, Host: net.JoinHostPort(u.Hostname(), port)}
	return ProxyHandler(u, o.Path, r.transport, responder), nil
}

// proxyable refuses a host that has no address, or one that may not be proxied to.
func (r *nodeProxyREST) proxyable(ctx context.Context, host string) error {
	all, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("no addresses for hostname")
	}
	for _, a := range all {
		if !a.IP.IsGlobalUnicast() && (!a.IP.IsLoopback() || !r.kubelets.LoopbackNodes) {
			return fmt.Errorf("address not allowed")
		}
	}
	return nil
}
