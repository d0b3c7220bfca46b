package podinformer

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// NewFactory makes a factory whose informers of resourceTypes keep what scheduling reads; all other
// informers are those of f, and one that f has made already stays as it is. The client should speak
// HTTP/1.1, where the reader of a response reads the connection: with HTTP/2 another goroutine
// reads it and wakes the reader for every object.
func NewFactory(f informers.SharedInformerFactory, cfg *rest.Config,
	client *http.Client) (informers.SharedInformerFactory, error) {
	out := &factory{SharedInformerFactory: f, sources: map[reflect.Type]listWatcher{}}
	for i := range resourceTypes {
		from, err := newSource(&resourceTypes[i], cfg, client)
		if err != nil {
			return nil, fmt.Errorf("client for %s: %w", resourceTypes[i].resource, err)
		}
		out.sources[reflect.TypeOf(resourceTypes[i].object)] = from
	}
	return out, nil
}

// factory makes informers of the resources that it has a source of.
type factory struct {
	informers.SharedInformerFactory
	sources map[reflect.Type]listWatcher
}

// InformerFor is the informer of a type; the first call makes it.
func (f *factory) InformerFor(obj runtime.Object,
	otherwise internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	from, ok := f.sources[reflect.TypeOf(obj)]
	if !ok {
		return f.SharedInformerFactory.InformerFor(obj, otherwise)
	}
	return f.SharedInformerFactory.InformerFor(obj,
		func(k kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
			lists := &cache.ListWatch{ListWithContextFunc: from.list, WatchFuncWithContext: from.watch}
			return newInlineInformer(cache.ToListWatcherWithWatchListSemantics(lists, k), from.object)
		})
}

// Core has informers of Pods and volumes.
func (f *factory) Core() core.Interface { return core.New(f, metav1.NamespaceAll, nil) }

// Resource has informers of claims for devices.
func (f *factory) Resource() resource.Interface { return resource.New(f, metav1.NamespaceAll, nil) }

// newSource lists and watches one resource with the trimming decoder over client. It is an error if
// no serializer decodes protobuf.
func newSource(r *resourceType, cfg *rest.Config, client *http.Client) (listWatcher, error) {
	cfg = rest.CopyConfig(cfg)
	group := r.GroupVersion()
	cfg.APIPath, cfg.GroupVersion = "/apis", &group
	if group.Group == "" {
		cfg.APIPath = "/api"
	}
	s := trimmingSerializers{rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion(), r,
		&valueCache{}}
	cfg.NegotiatedSerializer = s
	get, err := rest.RESTClientForConfigAndClient(cfg, client)
	if err != nil {
		return listWatcher{}, err
	}
	for _, info := range s.SupportedMediaTypes() {
		if d, ok := info.Serializer.(decoder); ok {
			return listWatcher{get, d}, nil
		}
	}
	return listWatcher{}, errors.New("nothing decodes protobuf")
}

// trimmingSerializers are the ordinary serializers with another decoder of protobuf.
type trimmingSerializers struct {
	runtime.NegotiatedSerializer
	*resourceType
	stock *valueCache
}

// SupportedMediaTypes puts the decoder of a resourceType before that of protobuf.
func (s trimmingSerializers) SupportedMediaTypes() []runtime.SerializerInfo {
	all := append([]runtime.SerializerInfo(nil), s.NegotiatedSerializer.SupportedMediaTypes()...)
	for i := range all {
		if all[i].MediaType == runtime.ContentTypeProtobuf {
			all[i].Serializer = decoder{all[i].Serializer, s.resourceType, s.stock}
		}
	}
	return all
}
