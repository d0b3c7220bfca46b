package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
)

// apiServiceRegistration keeps APIService objects in sync: those of built-in group versions from
// the start, those of custom resources as definitions come and go.
type apiServiceRegistration interface {
	AddAPIServiceToSyncOnStart(*apiregistrationv1.APIService)
	AddAPIServiceToSync(*apiregistrationv1.APIService)
	RemoveAPIServiceToSync(name string)
	Run(workers int, stop <-chan struct{})
}

// priority is where discovery lists a group and a version; higher comes first. The numbers are
// upstream's.
type priority struct{ group, version int32 }

// priorities returns upstream's priorities of the built-in group versions.
func priorities() map[schema.GroupVersion]priority {
	return map[schema.GroupVersion]priority{
		{Group: "", Version: "v1"}:                             {18000, 1},
		{Group: "apps", Version: "v1"}:                         {17800, 15},
		{Group: "events.k8s.io", Version: "v1"}:                {17750, 15},
		{Group: "authentication.k8s.io", Version: "v1"}:        {17700, 15},
		{Group: "authorization.k8s.io", Version: "v1"}:         {17600, 15},
		{Group: "autoscaling", Version: "v1"}:                  {17500, 15},
		{Group: "autoscaling", Version: "v2"}:                  {17500, 30},
		{Group: "batch", Version: "v1"}:                        {17400, 15},
		{Group: "certificates.k8s.io", Version: "v1"}:          {17300, 15},
		{Group: "networking.k8s.io", Version: "v1"}:            {17200, 15},
		{Group: "policy", Version: "v1"}:                       {17100, 15},
		{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {17000, 15},
		{Group: "storage.k8s.io", Version: "v1"}:               {16800, 15},
		{Group: "apiextensions.k8s.io", Version: "v1"}:         {16700, 15},
		{Group: "admissionregistration.k8s.io", Version: "v1"}: {16700, 15},
		{Group: "scheduling.k8s.io", Version: "v1"}:            {16600, 15},
		{Group: "coordination.k8s.io", Version: "v1"}:          {16500, 15},
		{Group: "node.k8s.io", Version: "v1"}:                  {16300, 15},
		{Group: "discovery.k8s.io", Version: "v1"}:             {16200, 15},
		{Group: "resource.k8s.io", Version: "v1"}:              {16150, 15},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {16100, 21},
	}
}

// apiService returns the APIService of a group version that this process serves.
func apiService(gv schema.GroupVersion, p priority) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.group, VersionPriority: p.version,
		},
	}
}

// registerAPIServices registers all group versions behind the aggregator and adds the hooks that
// keep them registered.
func (b *builder) registerAPIServices(agg *aggregator.APIAggregator, own *genericapiserver.GenericAPIServer,
	crds apiextensionsinformers.SharedInformerFactory) error {
	client, err := apiregistrationclient.NewForConfig(b.loopback)
	if err != nil {
		return err
	}
	// the order of aggregated discovery, which does not read local APIServices
	for gv, p := range priorities() {
		b.generic.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(gv), int(p.group),
			int(p.version))
	}
	var auto apiServiceRegistration = autoregister.NewAutoRegisterController(
		agg.APIRegistrationInformers.Apiregistration().V1().APIServices(), client.ApiregistrationV1())
	services := b.builtInAPIServices(own)
	for _, s := range services {
		auto.AddAPIServiceToSyncOnStart(s)
	}
	registered := make(chan struct{})
	err = agg.GenericAPIServer.AddPostStartHook("kube-apiserver-autoregistration",
		func(ctx genericapiserver.PostStartHookContext) error {
			go func() {
				if crds != nil {
					syncCustomResourceAPIServices(ctx, auto, crds)
				}
				close(registered)
			}()
			go func() {
				<-registered
				auto.Run(5, ctx.Done())
			}()
			return nil
		})
	if err != nil {
		return err
	}
	return agg.GenericAPIServer.AddBootSequenceHealthChecks(apiServicesAvailable(agg, services))
}

// builtInAPIServices returns the APIServices of the group versions that the servers behind the
// aggregator list by path.
func (b *builder) builtInAPIServices(own *genericapiserver.GenericAPIServer) []*apiregistrationv1.APIService {
	known := priorities()
	var out []*apiregistrationv1.APIService
	for _, path := range own.ListedPaths() {
		gv, ok := groupVersionOf(path)
		if !ok {
			continue
		}
		p, ok := known[gv]
		if !ok {
			p = priority{15000, 5}
		}
		out = append(out, apiService(gv, p))
	}
	return out
}

// groupVersionOf parses /api/v1 and /apis/GROUP/VERSION; false for other paths.
func groupVersionOf(path string) (schema.GroupVersion, bool) {
	if path == "/api/v1" {
		return schema.GroupVersion{Version: "v1"}, true
	}
	part := strings.Split(path, "/")
	if len(part) != 4 || part[1] != "apis" {
		return schema.GroupVersion{}, false
	}
	return schema.GroupVersion{Group: part[2], Version: part[3]}, true
}

// apiServicesAvailable is the readiness check that every built-in group version is registered and
// available.
func apiServicesAvailable(agg *aggregator.APIAggregator,
	services []*apiregistrationv1.APIService) healthz.HealthChecker {
	lister := agg.APIRegistrationInformers.Apiregistration().V1().APIServices().Lister()
	return healthz.NamedCheck("autoregister-completion", func(*http.Request) error {
		missing := sets.New[string]()
		for _, s := range services {
			if _, err := lister.Get(s.Name); err != nil {
				missing.Insert(s.Name)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("missing APIService: %v", sets.List(missing))
		}
		return nil
	})
}

// syncCustomResourceAPIServices starts the registration of custom resources' group versions; it
// returns when those that are stored are registered.
func syncCustomResourceAPIServices(ctx context.Context, auto apiServiceRegistration,
	crds apiextensionsinformers.SharedInformerFactory) {
	informer := crds.Apiextensions().V1().CustomResourceDefinitions()
	f := &crdRegistrationController{registration: auto, lister: informer.Lister().List,
		served: map[schema.GroupVersion]bool{}}
	reg, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { f.sync() },
		UpdateFunc: func(any, any) { f.sync() },
		DeleteFunc: func(any) { f.sync() },
	})
	if err != nil {
		return
	}
	cache.WaitForCacheSync(ctx.Done(), reg.HasSynced)
}

// crdRegistrationController registers the group versions that CustomResourceDefinitions serve.
type crdRegistrationController struct {
	registration apiServiceRegistration
	lister       func(labels.Selector) ([]*apiextensionsv1.CustomResourceDefinition, error)

	mu     sync.Mutex
	served map[schema.GroupVersion]bool
}

// sync adds and removes registrations until they match the definitions.
func (f *crdRegistrationController) sync() {
	all, err := f.lister(labels.Everything())
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := servedGroupVersions(all)
	for gv := range now {
		if !f.served[gv] {
			f.registration.AddAPIServiceToSync(apiService(gv, priority{1000, 100}))
		}
	}
	for gv := range f.served {
		if !now[gv] {
			f.registration.RemoveAPIServiceToSync(gv.Version + "." + gv.Group)
		}
	}
	f.served = now
}

// servedGroupVersions returns the group versions that definitions serve.
func servedGroupVersions(all []*apiextensionsv1.CustomResourceDefinition) map[schema.GroupVersion]bool {
	out := map[schema.GroupVersion]bool{}
	for _, crd := range all {
		for _, v := range crd.Spec.Versions {
			if v.Served {
				out[schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}] = true
			}
		}
	}
	return out
}
