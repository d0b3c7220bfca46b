package apiserver

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	apiextensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	apiextensionsopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	aggregatoropenapi "k8s.io/kube-aggregator/pkg/generated/openapi"

	"github.com/gantry-project/gantry/internal/apiserver/registry/journal"
	"github.com/gantry-project/gantry/internal/apiserver/store"
)

// createServerChain builds the servers of the chain, from the last to the aggregator, and gives the
// handler to in-process clients.
func (b *builder) createServerChain() error {
	next := genericapiserver.NewEmptyDelegateWithCustomHandler(notfoundhandler.New(b.scheme.Codecs,
		genericapifilters.NoMuxAndDiscoveryIncompleteKey))
	var crds *apiextensionsapiserver.CustomResourceDefinitions
	if !b.config.CustomResourcesOff {
		var err error
		if crds, err = b.createAPIExtensionsServer(next); err != nil {
			return fmt.Errorf("custom resources: %w", err)
		}
		next = crds.GenericAPIServer
	}
	own, err := b.createKubeAPIServer(next)
	if err != nil {
		return err
	}
	if b.config.AggregatorOff {
		prepared := own.PrepareRun()
		b.server.run, b.server.destroy = prepared.RunWithContext, own.Destroy
		b.server.inProcess.set(own.Handler)
		return nil
	}
	agg, err := b.createAggregatorServer(own, crds)
	if err != nil {
		return fmt.Errorf("aggregator: %w", err)
	}
	prepared, err := agg.PrepareRun()
	if err != nil {
		return fmt.Errorf("aggregator: %w", err)
	}
	b.server.run, b.server.destroy = prepared.Run, agg.GenericAPIServer.Destroy
	b.server.inProcess.set(agg.GenericAPIServer.Handler)
	return nil
}

// createKubeAPIServer builds the server of the built-in kinds.
func (b *builder) createKubeAPIServer(
	next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
	s, err := b.generic.Complete(b.informers).New("gantry", next)
	if err != nil {
		return nil, err
	}
	groups := map[string]*genericapiserver.APIGroupInfo{}
	var order []string
	for _, gv := range b.set.Versions() {
		if groups[gv.Group] == nil {
			info := genericapiserver.NewDefaultAPIGroupInfo(gv.Group, b.scheme.Scheme, b.scheme.Parameter,
				b.scheme.Codecs)
			if gv == journal.GroupVersion {
				info.NegotiatedSerializer = noProtobufSerializer{b.scheme.Codecs}
			}
			groups[gv.Group] = &info
			order = append(order, gv.Group)
		}
		groups[gv.Group].VersionedResourcesStorageMap[gv.Version] = b.set.Storages(gv)
	}
	var named []*genericapiserver.APIGroupInfo
	for _, g := range order {
		if g == "" {
			if err := s.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, groups[g]); err != nil {
				return nil, fmt.Errorf("install the core API: %w", err)
			}
			continue
		}
		named = append(named, groups[g])
	}
	if err := s.InstallAPIGroups(named...); err != nil {
		return nil, fmt.Errorf("install the API groups: %w", err)
	}
	for _, p := range b.access.Paths {
		if strings.HasSuffix(p.Path, "/") {
			s.Handler.NonGoRestfulMux.HandlePrefix(p.Path, p.Handler)
		} else {
			s.Handler.NonGoRestfulMux.Handle(p.Path, p.Handler)
		}
	}
	return s, serveOpenAPI(s, b.access.Paths, b.generic)
}

// noProtobufSerializer offers JSON and YAML only, for types without protobuf.
type noProtobufSerializer struct{ runtime.NegotiatedSerializer }

func (s noProtobufSerializer) SupportedMediaTypes() (out []runtime.SerializerInfo) {
	for _, info := range s.NegotiatedSerializer.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeJSON || info.MediaType == runtime.ContentTypeYAML {
			out = append(out, info)
		}
	}
	return out
}

// createAPIExtensionsServer builds the server of CustomResourceDefinitions and custom resources.
func (b *builder) createAPIExtensionsServer(
	next genericapiserver.DelegationTarget) (*apiextensionsapiserver.CustomResourceDefinitions, error) {
	// stored as v1beta1, as upstream: it is smaller, and both versions can be read
	gv := apiextensionsv1beta1.SchemeGroupVersion
	codec := apiextensionsapiserver.Codecs.LegacyCodec(gv, apiextensionsv1.SchemeGroupVersion)
	g, etcd, err := b.delegateConfig(codec, runtime.NewMultiGroupVersioner(gv, schema.GroupKind{Group: gv.Group}))
	if err != nil {
		return nil, err
	}
	b.setOpenAPI(&g, apiextensionsopenapi.GetOpenAPIDefinitions)
	g.SkipOpenAPIInstallation = false
	b.crdDiscovery = newCRDDiscovery()
	g.RESTOptionsGetter = store.WrapStorage(g.RESTOptionsGetter, b.crdDiscovery.wrapStorage)
	g.AggregatedDiscoveryGroupManager = crdResourceManager{g.AggregatedDiscoveryGroupManager, b.crdDiscovery}
	c := apiextensionsapiserver.Config{
		GenericConfig: &genericapiserver.RecommendedConfig{Config: g, SharedInformerFactory: b.informers},
		ExtraConfig: apiextensionsapiserver.ExtraConfig{
			CRDRESTOptionsGetter: store.WrapStorage(
				b.server.store.ShareClient(apiextensionsoptions.NewCRDRESTOptionsGetter(etcd, g.ResourceTransformers,
					g.StorageObjectCountTracker)), b.tracer.WrapStorage),
			MasterCount:         1,
			AuthResolverWrapper: b.webhookAuthResolver(),
			ServiceResolver:     b.resolver,
		},
	}
	return c.Complete().New(next)
}

// createAggregatorServer builds the front of the chain, which has an APIService for every group
// version and proxies requests to the server of it.
func (b *builder) createAggregatorServer(own *genericapiserver.GenericAPIServer,
	crds *apiextensionsapiserver.CustomResourceDefinitions) (*aggregator.APIAggregator, error) {
	gv := apiregistrationv1.SchemeGroupVersion
	g, _, err := b.delegateConfig(aggregatorscheme.Codecs.LegacyCodec(gv),
		runtime.NewMultiGroupVersioner(gv, schema.GroupKind{Group: gv.Group}))
	if err != nil {
		return nil, err
	}
	b.setOpenAPI(&g, aggregatoropenapi.GetOpenAPIDefinitions)
	c := aggregator.Config{
		GenericConfig: &genericapiserver.RecommendedConfig{Config: g, SharedInformerFactory: b.informers},
		ExtraConfig: aggregator.ExtraConfig{
			ProxyClientCertFile: b.config.Files.ProxyCert, ProxyClientKeyFile: b.config.Files.ProxyKey,
			ServiceResolver: b.resolver, RejectForwardingRedirects: true,
		},
	}
	agg, err := c.Complete().NewWithDelegate(own)
	if err != nil {
		return nil, err
	}
	var informers apiextensionsinformers.SharedInformerFactory
	if crds != nil {
		informers = crds.Informers
		if err := b.crdDiscovery.watchAPIServices(agg); err != nil {
			return nil, err
		}
	}
	return agg, b.registerAPIServices(agg, own, informers)
}
