package pods

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// subresources are the endpoints below a Pod, besides status.
func (c Connections) subresources(d resourcedef.Deps) map[string]rest.Storage {
	p := &podStore{Store: Generic(d.Store)}
	k := &kubeletLocator{Connections: c, lookup: d.Lookup}
	return map[string]rest.Storage{
		"binding":             &bindingREST{pods: p, lookup: d.Lookup},
		"eviction":            &evictionREST{pods: p, status: d.Status, lookup: d.Lookup, journal: c.Journal},
		"ephemeralcontainers": &updateREST{pods: p, rules: ephemeralContainersRules{}},
		"resize":              &updateREST{pods: p, rules: resizeRules{}},
		"log":                 &logREST{pods: p, kubelets: k},
		"exec":                &streamREST{pods: p, kubelets: k, verb: "exec"},
		"attach":              &streamREST{pods: p, kubelets: k, verb: "attach"},
		"portforward":         &streamREST{pods: p, kubelets: k, verb: "portForward"},
		"proxy":               newProxyREST(p, c.ProxyTransport()),
	}
}

// Generic finds the library's store behind what the machinery hands out. It panics on anything
// else: rows and machinery are put together once, at start.
func Generic(s rest.Storage) *genericregistry.Store {
	switch s := s.(type) {
	case *genericregistry.Store:
		return s
	case *registry.Store:
		return s.Store
	}
	panic(fmt.Sprintf("storage %T has no generic store behind it", s))
}

// podStore reads and changes stored Pods for the subresources.
type podStore struct{ *genericregistry.Store }

func (s *podStore) pod(ctx context.Context, name string) (*v1.Pod, error) {
	o, err := s.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	p, ok := o.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("unexpected object type %T in the store of pods", o)
	}
	return p, nil
}

// noDestroy is what every subresource's storage shares: nothing to clean up.
type noDestroy struct{}

func (noDestroy) Destroy() {}
