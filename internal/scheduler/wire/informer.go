package wire

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

// Over gives a factory whose informers of the kinds read here (rows.go) keep what scheduling reads of them; all others are those of f. An informer that f was asked for
// before stays as it is. The client had better speak HTTP/1.1, where who reads an answer reads the connection: with HTTP/2 another goroutine reads it and wakes him for
// every object.
func Over(f informers.SharedInformerFactory, cfg *rest.Config, client *http.Client) (informers.SharedInformerFactory, error) {
	out := &factory{SharedInformerFactory: f, from: map[reflect.Type]source{}}
	for i := range rows {
		from, err := newSource(&rows[i], cfg, client)
		if err != nil {
			return nil, fmt.Errorf("client for %s: %w", rows[i].resource, err)
		}
		out.from[reflect.TypeOf(rows[i].object)] = from
	}
	return out, nil
}

// factory makes informers of its own for the kinds that it has a source of.
type factory struct {
	informers.SharedInformerFactory
	from map[reflect.Type]source
}

// InformerFor makes an informer when it is asked for first.
func (f *factory) InformerFor(obj runtime.Object, otherwise internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	from, ok := f.from[reflect.TypeOf(obj)]
	if !ok {
		return f.SharedInformerFactory.InformerFor(obj, otherwise)
	}
	return f.SharedInformerFactory.InformerFor(obj, func(k kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		lists := &cache.ListWatch{ListWithContextFunc: from.list, WatchFuncWithContext: from.watch}
		return newFeed(cache.ToListWatcherWithWatchListSemantics(lists, k), from.object)
	})
}

// Core has informers of Pods and volumes.
func (f *factory) Core() core.Interface { return core.New(f, metav1.NamespaceAll, nil) }

// Resource has informers of claims for devices.
func (f *factory) Resource() resource.Interface { return resource.New(f, metav1.NamespaceAll, nil) }

func newSource(r *row, cfg *rest.Config, client *http.Client) (source, error) {
	cfg = rest.CopyConfig(cfg)
	group := r.GroupVersion()
	cfg.APIPath, cfg.GroupVersion = "/apis", &group
	if group.Group == "" {
		cfg.APIPath = "/api"
	}
	s := serializers{rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion(), r, &stock{}}
	cfg.NegotiatedSerializer = s
	get, err := rest.RESTClientForConfigAndClient(cfg, client)
	if err != nil {
		return source{}, err
	}
	for _, info := range s.SupportedMediaTypes() {
		if d, ok := info.Serializer.(decoder); ok {
			return source{get, d}, nil
		}
	}
	return source{}, errors.New("nothing decodes protobuf")
}

// serializers are the ordinary ones, but for that of protobuf.
type serializers struct {
	runtime.NegotiatedSerializer
	*row
	stock *stock
}

// SupportedMediaTypes puts the decoder of a row before that of protobuf.
func (s serializers) SupportedMediaTypes() []runtime.SerializerInfo {
	all := append([]runtime.SerializerInfo(nil), s.NegotiatedSerializer.SupportedMediaTypes()...)
	for i := range all {
		if all[i].MediaType == runtime.ContentTypeProtobuf {
			all[i].Serializer = decoder{all[i].Serializer, s.row, s.stock}
		}
	}
	return all
}
