package pods

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// NodeProxy returns nodes/proxy: the kubelet's API under the API server's authorization of
// nodes/proxy, and other ports of the node.
func (c Connections) NodeProxy(d resourcedef.Deps) map[string]rest.Storage {
	l := &nodeProxyLocator{kubelets: &kubeletLocator{Connections: c, lookup: d.Lookup}, transport: c.ProxyTransport()}
	return map[string]rest.Storage{"proxy": &ProxyREST[v1.NodeProxyOptions, *v1.NodeProxyOptions]{Resource: "node",
		Path: func(o *v1.NodeProxyOptions) string { return o.Path }, Locate: l.locate}}
}

// nodeProxyLocator finds the target of nodes/proxy.
type nodeProxyLocator struct {
	kubelets  *kubeletLocator
	transport http.RoundTripper // to ports that are not the kubelet's
}

// locate returns the kubelet for NODE and for NODE:PORT with the kubelet's port, otherwise
// [scheme:]NODE:PORT.
func (r *nodeProxyLocator) locate(ctx context.Context, n ProxyName) (*url.URL, http.RoundTripper, error) {
	u, err := r.kubelets.location(ctx, n.Name)
	if err != nil {
		return nil, nil, err
	}
	if err := r.proxyable(ctx, u.Hostname()); err != nil {
		return nil, nil, errors.NewBadRequest(err.Error())
	}
	if n.Port == "" || n.Port == u.Port() {
		return u, kubeletTransport{r.kubelets.Kubelet, u.Hostname()}, nil
	}
	return &url.URL{Scheme: n.Scheme, Host: net.JoinHostPort(u.Hostname(), n.Port)}, r.transport, nil
}

// proxyable returns an error for a host without an address, or with one that may not be proxied to.
func (r *nodeProxyLocator) proxyable(ctx context.Context, host string) error {
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
