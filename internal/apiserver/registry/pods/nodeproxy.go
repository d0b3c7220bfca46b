package pods

import (
	"context"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// NodeProxy is nodes/proxy: the kubelet's own API, under the API server's authorization of nodes/proxy.
func (c Connections) NodeProxy(d kind.Deps) map[string]rest.Storage {
	return map[string]rest.Storage{"proxy": &nodeProxyREST{kubelets: &kubelets{Connections: c, lookup: d.Lookup}}}
}

type nodeProxyREST struct {
	noop
	kubelets *kubelets
}

var _ rest.Connecter = &nodeProxyREST{}

func (r *nodeProxyREST) New() runtime.Object      { return &v1.NodeProxyOptions{} }
func (r *nodeProxyREST) ConnectMethods() []string { return ProxyMethods() }
func (r *nodeProxyREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &v1.NodeProxyOptions{}, true, "path"
}

// Connect proxies to NODE, or NODE:PORT for another port of the node.
func (r *nodeProxyREST) Connect(ctx context.Context, id string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	o, ok := options.(*v1.NodeProxyOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	_, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return nil, errors.NewBadRequest(fmt.Sprintf("invalid node request %q", id))
	}
	u, err := r.kubelets.location(ctx, name)
	if err != nil {
		return nil, err
	}
	if port != "" && port != u.Port() {
		return nil, errors.NewBadRequest(fmt.Sprintf("port %s of node %s is not the kubelet's; only the kubelet is proxied to", port, name))
	}
	u.Path = slashed(o.Path)
	return proxy.NewUpgradeAwareHandler(u, r.kubelets.Kubelet, true, false, proxy.NewErrorResponder(responder)), nil
}
