package services

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/proxy"

	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// proxySubresource returns services/proxy: HTTP to a ready endpoint of the Service.
func proxySubresource(a *Allocator, c pods.Connections, d resourcedef.Deps) map[string]rest.Storage {
	l := &proxyLocator{deps: d, transport: c.ProxyTransport(), preferredFamily: a.defaultFamily()}
	return map[string]rest.Storage{"proxy": &pods.ProxyREST[v1.ServiceProxyOptions, *v1.ServiceProxyOptions]{
		Resource: "service", Path: func(o *v1.ServiceProxyOptions) string { return o.Path }, Locate: l.locate}}
}

// defaultFamily returns the cluster's default address family.
func (a *Allocator) defaultFamily() v1.IPFamily {
	if a == nil {
		return v1.IPv4Protocol
	}
	return a.pools[0].family
}

// proxyLocator finds the target of services/proxy.
type proxyLocator struct {
	deps            resourcedef.Deps
	transport       http.RoundTripper
	preferredFamily v1.IPFamily
}

// locate returns the address of a random ready endpoint for [scheme:]NAME[:port name or number];
// without a port the Service's unnamed port is used.
func (r *proxyLocator) locate(ctx context.Context, n pods.ProxyName) (*url.URL, http.RoundTripper, error) {
	port, err := r.namedPort(ctx, n.Name, n.Port)
	if err != nil {
		return nil, nil, err
	}
	slices, err := r.slices(ctx, n.Name)
	if err != nil {
		return nil, nil, err
	}
	host, err := proxy.RandomEndpoint(n.Name, slices, port, r.preferredFamily,
		func(e *discoveryv1.Endpoint) bool { return r.isPod(ctx, e) })
	if err != nil {
		return nil, nil, err
	}
	return &url.URL{Scheme: n.Scheme, Host: host}, r.transport, nil
}

// namedPort returns the name of the Service's port that is given by name or number.
func (r *proxyLocator) namedPort(ctx context.Context, name, port string) (string, error) {
	number, err := strconv.ParseInt(port, 10, 64)
	if err != nil {
		return port, nil
	}
	got, err := r.deps.Store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	s, ok := got.(*v1.Service)
	if !ok {
		return "", fmt.Errorf("unexpected object type %T in the store of services", got)
	}
	for _, p := range s.Spec.Ports {
		if int64(p.Port) == number {
			return p.Name, nil
		}
	}
	return "", errors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, name))
}

// slices returns the EndpointSlices of a Service.
func (r *proxyLocator) slices(ctx context.Context, service string) ([]*discoveryv1.EndpointSlice, error) {
	store := r.deps.Lookup(discoveryv1.GroupName, "endpointslices")
	if store == nil {
		return nil, errors.NewServiceUnavailable("endpointslices are not served here")
	}
	sel := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service})
	o, err := store.List(ctx, &internalversion.ListOptions{LabelSelector: sel})
	if err != nil {
		return nil, err
	}
	list, ok := o.(*discoveryv1.EndpointSliceList)
	if !ok {
		return nil, fmt.Errorf("unexpected list type %T in the store of endpointslices", o)
	}
	out := make([]*discoveryv1.EndpointSlice, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}

// isPod reports whether an endpoint is a Pod of the request's namespace with that address. It keeps
// users who can write EndpointSlices from reaching other addresses through the API server.
func (r *proxyLocator) isPod(ctx context.Context, e *discoveryv1.Endpoint) bool {
	store := r.deps.Lookup("", "pods")
	if store == nil || e.TargetRef == nil || e.TargetRef.Namespace != request.NamespaceValue(ctx) ||
		len(e.Addresses) == 0 {
		return false
	}
	got, err := store.Get(ctx, e.TargetRef.Name, &metav1.GetOptions{})
	p, ok := got.(*v1.Pod)
	if err != nil || !ok {
		return false
	}
	for _, ip := range p.Status.PodIPs {
		if ip.IP == e.Addresses[0] {
			return true
		}
	}
	return false
}
