package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/gantry-project/gantry/internal/apiserver/encryptioncheck"
	"github.com/gantry-project/gantry/internal/apiserver/store"
)

// resourcePrefixes returns the etcd keys of resources that upstream does not store under their own
// name.
func resourcePrefixes() map[schema.GroupResource]string {
	return map[schema.GroupResource]string{
		{Resource: "replicationcontrollers"}:                "controllers",
		{Resource: "endpoints"}:                             "services/endpoints",
		{Resource: "nodes"}:                                 "minions",
		{Resource: "services"}:                              "services/specs",
		{Group: "networking.k8s.io", Resource: "ingresses"}: "ingress",
	}
}

// makeEtcdOptions configures storage: protobuf values under upstream's keys, encryption, the shared
// client.
func (b *builder) makeEtcdOptions() error {
	backend := storagebackend.NewDefaultConfig(store.Prefix, nil)
	backend.Transport = b.server.store.Transport
	b.etcd = options.NewEtcdOptions(backend)
	encoding := serverstorage.NewDefaultResourceEncodingConfigForEffectiveVersion(b.scheme.Scheme,
		b.generic.EffectiveVersion)
	for _, k := range b.kinds {
		// not in the group's first version
		if gv := schedulingv1beta1.SchemeGroupVersion; k.Group == gv.Group && k.Version == gv.Version {
			encoding.SetResourceEncoding(schema.GroupResource{Group: k.Group, Resource: k.Resource}, gv,
				schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal})
		}
	}
	factory := serverstorage.NewDefaultStorageFactory(b.etcd.StorageConfig, runtime.ContentTypeProtobuf,
		b.scheme.Codecs, encoding, b.resources, resourcePrefixes())
	factory.AddCohabitatingResources(schema.GroupResource{Resource: "events"},
		schema.GroupResource{Group: eventsv1.GroupName, Resource: "events"})
	factory.StorageConfig.StorageObjectCountTracker = b.generic.StorageObjectCountTracker
	b.addEtcdHealthChecks()
	b.etcd.EncryptionProviderConfigFilepath, b.etcd.EncryptionProviderConfigAutomaticReload = b.config.Encryption.File,
		b.config.Encryption.Reload
	if err := b.etcd.ApplyWithStorageFactoryTo(factory, b.generic); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	b.generic.RESTOptionsGetter = store.WrapStorage(b.server.store.ShareClient(b.generic.RESTOptionsGetter),
		b.tracer.WrapStorage)
	return b.checkEncryptionKeys()
}

// checkEncryptionKeys checks that the stored values can be decrypted, before the server serves.
func (b *builder) checkEncryptionKeys() error {
	if check, ok := b.generic.ResourceTransformers.(healthz.HealthChecker); ok && b.etcd.SkipHealthEndpoints {
		b.generic.AddHealthChecks(check) // of KMS plugins; the library adds it together with etcd's
		b.generic.AddReadyzChecks(check)
	}
	client, err := b.server.store.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	path := func(gr schema.GroupResource) string {
		return KeyPrefix(gr, gr.Group != "" && !b.scheme.Scheme.IsGroupRegistered(gr.Group))
	}
	return encryptioncheck.Check(ctx, b.config.Encryption, encryptioncheck.Source{Client: client, Prefix: path,
		Transformers: b.generic.ResourceTransformers})
}

// delegateConfig returns the shared configuration for another server of the chain, whose objects
// are encoded with codec.
func (b *builder) delegateConfig(codec runtime.Codec,
	versioner runtime.GroupVersioner) (genericapiserver.Config, options.EtcdOptions, error) {
	g := *b.generic
	g.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	g.RESTOptionsGetter = nil
	etcd := *b.etcd
	etcd.StorageConfig.Codec, etcd.StorageConfig.EncodeVersioner = codec, versioner
	etcd.StorageConfig.StorageObjectCountTracker = b.generic.StorageObjectCountTracker
	etcd.SkipHealthEndpoints = true
	if err := etcd.ApplyTo(&g); err != nil {
		return g, etcd, fmt.Errorf("storage: %w", err)
	}
	g.RESTOptionsGetter = store.WrapStorage(b.server.store.ShareClient(g.RESTOptionsGetter), b.tracer.WrapStorage)
	return g, etcd, nil
}

// addEtcdHealthChecks adds the checks of an embedded etcd, through the shared client; for an
// external one the library adds its own.
func (b *builder) addEtcdHealthChecks() {
	if !b.server.store.Embedded() {
		return
	}
	b.etcd.SkipHealthEndpoints = true
	ping := func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), 2*time.Second)
		defer cancel()
		return b.server.store.Ping(ctx)
	}
	b.generic.AddHealthChecks(healthz.NamedCheck("etcd", ping))
	b.generic.AddReadyzChecks(healthz.NamedCheck("etcd-readiness", ping))
	b.generic.AddReadyzChecks(healthz.NamedCheck("watch-cache-progress", func(*http.Request) error {
		return b.server.store.CheckCaches()
	}))
}
