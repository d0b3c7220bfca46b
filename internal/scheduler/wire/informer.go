package wire

import (
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Pods makes the factory's informer of Pods one that keeps what scheduling reads. It must be called before anybody else asks for that informer. The client had better
// speak HTTP/1.1, where who reads an answer reads the connection: with HTTP/2 another goroutine reads it and wakes him for every Pod.
func Pods(f informers.SharedInformerFactory, cfg *rest.Config, client *http.Client) error {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = "/api", &v1.SchemeGroupVersion
	s := serializers{rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion(), &stock{}}
	cfg.NegotiatedSerializer = s
	get, err := rest.RESTClientForConfigAndClient(cfg, client)
	if err != nil {
		return fmt.Errorf("client for Pods: %w", err)
	}
	from := source{get: get}
	for _, info := range s.SupportedMediaTypes() {
		if d, ok := info.Serializer.(decoder); ok {
			from.decoder = d
		}
	}
	f.InformerFor(&v1.Pod{}, func(k kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		lists := &cache.ListWatch{ListWithContextFunc: from.list, WatchFuncWithContext: from.watch}
		return newFeed(cache.ToListWatcherWithWatchListSemantics(lists, k), &v1.Pod{})
	})
	return nil
}

// serializers are the ordinary ones, but for that of protobuf.
type serializers struct {
	runtime.NegotiatedSerializer
	stock *stock
}

// SupportedMediaTypes puts the decoder of Pods before that of protobuf.
func (s serializers) SupportedMediaTypes() []runtime.SerializerInfo {
	all := append([]runtime.SerializerInfo(nil), s.NegotiatedSerializer.SupportedMediaTypes()...)
	for i := range all {
		if all[i].MediaType == runtime.ContentTypeProtobuf {
			all[i].Serializer = decoder{all[i].Serializer, s.stock}
		}
	}
	return all
}
