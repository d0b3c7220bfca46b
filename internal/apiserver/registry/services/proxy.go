package services

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
)

func proxyOf(c pods.Connections, d kind.Deps) map[string]rest.Storage {
	transport := c.Pods
	if transport == nil {
		transport = &http.Transport{Proxy: nil}
	}
	return map[string]rest.Storage{"proxy": &proxyREST{deps: d, transport: transport}}
}

// proxyREST is services/proxy: HTTP to one ready endpoint of the Service.
type proxyREST struct {
	deps      kind.Deps
	transport http.RoundTripper
}

var _ rest.Connecter = &proxyREST{}

func (r *proxyREST) New() runtime.Object      { return &v1.ServiceProxyOptions{} }
func (r *proxyREST) Destroy()                 {}
func (r *proxyREST) ConnectMethods() []string { return pods.ProxyMethods() }
func (r *proxyREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &v1.ServiceProxyOptions{}, true, "path"
}

// Connect proxies to [scheme:]NAME[:port name or number].
func (r *proxyREST) Connect(ctx context.Context, id string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	o, ok := options.(*v1.ServiceProxyOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return nil, errors.NewBadRequest(fmt.Sprintf("invalid service request %q", id))
	}
	got, err := r.deps.Store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	s, ok := got.(*v1.Service)
	if !ok {
		return nil, fmt.Errorf("unexpected object type %T in the store of services", got)
	}
	portName, err := namedPort(s, port)
	if err != nil {
		return nil, err
	}
	slices, err := r.slices(ctx, s)
	if err != nil {
		return nil, err
	}
	targets := Targets(slices, portName)
	if len(targets) == 0 {
		return nil, errors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", id))
	}
	u := &url.URL{Scheme: scheme, Host: targets[rand.IntN(len(targets))], Path: "/" + strings.TrimPrefix(o.Path, "/")}
	return proxy.NewUpgradeAwareHandler(u, r.transport, true, false, proxy.NewErrorResponder(responder)), nil
}

// namedPort is the name of the Service port that a request means by name or number; one without a port means the only unnamed one.
func namedPort(s *v1.Service, port string) (string, error) {
	for _, p := range s.Spec.Ports {
		if p.Name == port || strconv.Itoa(int(p.Port)) == port {
			return p.Name, nil
		}
	}
	if port == "" && len(s.Spec.Ports) == 1 {
		return s.Spec.Ports[0].Name, nil
	}
	if _, err := strconv.Atoi(port); err == nil {
		return "", errors.NewServiceUnavailable(fmt.Sprintf("no service port %s found for service %q", port, s.Name))
	}
	return port, nil
}

func (r *proxyREST) slices(ctx context.Context, s *v1.Service) ([]discoveryv1.EndpointSlice, error) {
	store := r.deps.Lookup(discoveryv1.GroupName, "endpointslices")
	if store == nil {
		return nil, errors.NewServiceUnavailable("endpointslices are not served here")
	}
	sel := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: s.Name})
	o, err := store.List(ctx, &internalversion.ListOptions{LabelSelector: sel})
	if err != nil {
		return nil, err
	}
	list, ok := o.(*discoveryv1.EndpointSliceList)
	if !ok {
		return nil, fmt.Errorf("unexpected list type %T in the store of endpointslices", o)
	}
	return list.Items, nil
}

// Targets are the host:port pairs of ready endpoints for a port name.
func Targets(slices []discoveryv1.EndpointSlice, portName string) []string {
	var out []string
	for _, s := range slices {
		for _, p := range s.Ports {
			if p.Port == nil || p.Name != nil && *p.Name != portName || p.Name == nil && portName != "" {
				continue
			}
			for _, e := range s.Endpoints {
				if (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
					out = append(out, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	return out
}
