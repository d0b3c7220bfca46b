package apiserver

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"

	"github.com/gantry-project/gantry/internal/apiserver/audit"
	"github.com/gantry-project/gantry/internal/apiserver/registry"
	"github.com/gantry-project/gantry/internal/apiserver/registry/autoscaling"
	"github.com/gantry-project/gantry/internal/apiserver/registry/core"
	"github.com/gantry-project/gantry/internal/apiserver/registry/journal"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resource"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/services"
	"github.com/gantry-project/gantry/internal/apiserver/registry/services/portallocator"
	"github.com/gantry-project/gantry/internal/apiserver/requesttrace"
	"github.com/gantry-project/gantry/internal/apiserver/scheme"
	"github.com/gantry-project/gantry/internal/apiserver/watchbatching"
)

// builder holds the parts of one server while they are made, one step after the other, by one
// goroutine.
type builder struct {
	config Config
	server *Server

	kinds     []resourcedef.Kind
	scheme    *scheme.Scheme
	set       *registry.StorageSet
	access    *Access
	loopback  *restclient.Config
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	resources *serverstorage.ResourceConfig
	etcd      *options.EtcdOptions
	generic   *genericapiserver.Config // what the three servers of the chain copy
	resolver  aggregator.ServiceResolver
	advertise netip.Addr
	requestDeps
}

// requestDeps is what handlers use while they serve requests; it is complete before the first one.
type requestDeps struct {
	tracer          *requesttrace.Tracer
	allocator       *services.Allocator
	nodePortStorage *portallocator.Storage
	migrationSignal changeSignal  // a StorageVersionMigration was created
	bootstrapped    chan struct{} // closed when createBootstrapObjects has succeeded or the server ends
	watchBatcher    watchbatching.Batcher
	crdDiscovery    *crdDiscovery // nil without custom resources
}

// build makes the server chain: aggregator, built-in kinds, custom resources, 404.
func (b *builder) build() error {
	if err := setFeatureGates(b.config.Features); err != nil {
		return err
	}
	for _, step := range []func() error{b.makeScheme, b.makeClients, b.makeAccess, b.makeGeneric, b.makeStorage,
		b.makeServiceResolver, b.makeAdmission, b.addPostStartHooks} {
		if err := step(); err != nil {
			return err
		}
	}
	return b.createServerChain()
}

// makeScheme makes the allocator of Services, the built-in kinds and their scheme.
func (b *builder) makeScheme() (err error) {
	if b.allocator, err = newAllocator(b.config, b.lookupStorage); err != nil {
		return err
	}
	b.migrationSignal, b.bootstrapped = make(changeSignal, 1), make(chan struct{})
	b.kinds = Kinds(b.config, b.lookupStorage, b.allocator, b.migrationSignal.Enqueue)
	resource.AuthorizeStatus(b.kinds, func() authorizer.Authorizer { return b.access.Authorizer })
	if b.scheme, err = scheme.New(b.kinds, journal.AddToScheme, autoscaling.AddV1); err != nil {
		return err
	}
	// without it its model has no name and managed fields cannot be computed
	b.scheme.Served.AddKnownTypes(journal.GroupVersion, &journal.PodJournal{})
	if b.config.Features.CBORServingAndStorage {
		b.scheme.AddCBOR()
	}
	return nil
}

// lookupStorage is Lookup for parts that are made before the stores; nil until then.
func (b *builder) lookupStorage(group, resource string) rest.StandardStorage {
	return b.set.Lookup(group, resource)
}

// makeClients makes the server's own client and its informers, which call the server in memory.
func (b *builder) makeClients() (err error) {
	b.loopback = b.server.inProcess.clientConfig(loopbackUser())
	b.loopback.UserAgent = "gantry-apiserver"
	// the server writes Endpoints too: the deprecation warning is not for its own client
	b.loopback.WarningHandler = restclient.NoWarnings{}
	if b.client, err = kubernetes.NewForConfig(b.loopback); err != nil {
		return err
	}
	b.informers = informers.NewSharedInformerFactoryWithOptions(b.client, 10*time.Minute, informerName()...)
	return nil
}

// informerName makes the first server of the process export its informers' metrics (informer_*),
// which are per process.
func informerName() []informers.SharedInformerOption {
	name, err := cache.NewInformerName("kube-apiserver")
	if err != nil {
		return nil // another server of this process exports them
	}
	return []informers.SharedInformerOption{informers.WithInformerName(name)}
}

// makeGeneric makes the configuration that all servers of the chain share.
func (b *builder) makeGeneric() error {
	g := genericapiserver.NewConfig(b.scheme.Codecs)
	g.EffectiveVersion = newEffectiveVersion(b.config.Features.V136)
	g.LoopbackClientConfig = b.loopback
	b.resources = serverstorage.NewResourceConfig()
	b.resources.EnableVersions(servedVersions(b.scheme)...)
	g.MergedResourceConfig = b.resources
	g.LongRunningFunc = filters.BasicLongRunningRequestCheck(sets.NewString("watch", "proxy"),
		sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	g.ShutdownSendRetryAfter = true // otherwise open watches delay the shutdown for a minute
	g.ShutdownWatchTerminationGracePeriod = time.Second
	g.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	b.tracer = &requesttrace.Tracer{Authorizer: b.access.Authorizer, MutatingPolicies: b.mutatingPolicies}
	g.BuildHandlerChainFunc = b.buildHandlerChain
	b.setOpenAPI(g, openAPIDefinitions)
	g.SkipOpenAPIInstallation = true // serveOpenAPI does it, and the aggregator merges
	serving, err := b.makeSecureServing()
	if err != nil {
		return err
	}
	g.SecureServing = serving
	if err := b.setExternalAddress(g); err != nil {
		return err
	}
	g.Authentication.Authenticator = b.tracer.WrapAuthenticator(b.access.Authenticator)
	g.Authentication.APIAudiences = b.access.Audiences
	g.Authentication.RequestHeaderConfig = b.access.RequestHeader
	g.Authorization.Authorizer = b.tracer.WrapAuthorizer(b.access.Authorizer)
	g.RuleResolver = b.access.RuleResolver
	g.MaxRequestsInFlight, g.MaxMutatingRequestsInFlight = b.config.MaxInFlight.limits()
	if b.config.PriorityAndFairness {
		if g.MaxRequestsInFlight+g.MaxMutatingRequestsInFlight == 0 {
			return errors.New("priority and fairness has nothing to divide: --max-requests-inflight and " +
				"--max-mutating-requests-inflight are both without bound")
		}
		g.FlowControl = flowcontrol.New(b.informers, b.client.FlowcontrolV1(),
			g.MaxRequestsInFlight+g.MaxMutatingRequestsInFlight)
	}
	b.generic = g
	return audit.Apply(b.config.Audit, g)
}

// buildHandlerChain returns the library's handler chain with Gantry's filters: outermost the
// recording of requests (requesttrace); innermost the wait of discovery for custom resources, the
// batching of watch events, the User-Agent for the journal and the check of patches' merge keys.
func (b *builder) buildHandlerChain(h http.Handler, c *genericapiserver.Config) http.Handler {
	return b.tracer.WithRequestTrace(
		genericapiserver.DefaultBuildHandlerChain(
			b.withCRDDiscovery(b.withWatchBatching(withUserAgent(b.withMergeKeyCheck(h)))), c))
}

// setExternalAddress sets the address in URLs that clients get.
func (b *builder) setExternalAddress(g *genericapiserver.Config) error {
	b.advertise = b.config.Listen.Advertise
	if !b.advertise.IsValid() {
		b.advertise = hostAddress(b.server.listener.Addr())
	}
	g.PublicAddress = net.IP(b.advertise.AsSlice())
	g.ExternalAddress = b.config.Listen.External
	return nil
}

// makeStorage opens storage and makes the StorageSet of all kinds.
func (b *builder) makeStorage() error {
	if err := b.makeEtcdOptions(); err != nil {
		return err
	}
	if err := b.persistNodePorts(); err != nil {
		return err
	}
	wrap := map[schema.GroupResource]func(rest.StandardStorage) rest.Storage{
		{Resource: "namespaces"}: core.WrapNamespaces, priorityClassResource(): protectSystemPriorityClasses,
	}
	for gr, f := range b.access.Wrap {
		wrap[gr] = f
	}
	set, err := registry.Build(b.kinds, registry.Options{
		Scheme: b.scheme.Scheme, RESTOptions: b.generic.RESTOptionsGetter, Journal: b.config.Journal.Sink, Wrap: wrap,
		Extra: b.config.Kubelets,
	})
	if err != nil {
		return err
	}
	b.set = set
	if to, ok := set.Storages(corev1.SchemeGroupVersion)["pods/binding"].(rest.NamedCreater); ok {
		set.Add(corev1.SchemeGroupVersion, "bindings", legacyBindingREST{to})
	}
	set.Add(corev1.SchemeGroupVersion, "componentstatuses", componentStatusREST{b.server.store.Ping})
	if b.config.Journal.Reader != nil {
		set.Add(journal.GroupVersion, journal.Resource, journal.New(b.config.Journal.Reader, b.config.Journal.Appender))
	}
	if b.access.Storages == nil {
		return nil
	}
	more, err := b.access.Storages()
	if err != nil {
		return fmt.Errorf("storages of access: %w", err)
	}
	for gvr, storage := range more {
		set.Add(gvr.GroupVersion(), gvr.Resource, storage)
	}
	return nil
}
