package memapi

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/gantry-project/gantry/internal/apiserver"
	gantryadmission "github.com/gantry-project/gantry/internal/apiserver/admission"
	"github.com/gantry-project/gantry/internal/apiserver/registry"
	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/scheme"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/simulate/memstore"
)

// Server answers requests. It is safe for concurrent use.
type Server struct {
	store     *memstore.Store
	scheme    *scheme.Scheme
	kinds     map[schema.GroupVersionKind]resourcedef.Kind
	set       *registry.StorageSet
	admission admission.Interface
	names     *names
	metrics   func(namespace string, which labels.Selector) *metricsv1beta1.PodMetricsList
	stop      chan struct{}

	config *restclient.Config
	client kubernetes.Interface
}

// Options are what a Server is made from.
type Options struct {
	Store     *memstore.Store
	Informers informers.SharedInformerFactory // what admission plugins look things up in
	Journal   journal.Sink
	// PodMetrics answers metrics.k8s.io; nil: it is not served
	PodMetrics func(namespace string, which labels.Selector) *metricsv1beta1.PodMetricsList
}

// New returns a server over a store. Close ends it.
func New(o Options) (*Server, error) {
	s := &Server{store: o.Store, kinds: map[schema.GroupVersionKind]resourcedef.Kind{}, names: newNames(),
		metrics: o.PodMetrics, stop: make(chan struct{})}
	kinds, err := apiserver.StandaloneKinds(func(group, resource string) rest.StandardStorage {
		return s.set.Lookup(group, resource)
	})
	if err != nil {
		return nil, err
	}
	for _, k := range kinds {
		s.kinds[schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}] = k
	}
	if s.scheme, err = scheme.New(kinds); err != nil {
		return nil, err
	}
	s.set, err = registry.Build(kinds, registry.Options{Scheme: s.scheme.Scheme, RESTOptions: restOptions{o.Store},
		Journal: o.Journal, Extra: pods.Connections{Journal: o.Journal}})
	if err != nil {
		return nil, err
	}
	s.config = &restclient.Config{Host: "http://simulated", Transport: s, QPS: -1, UserAgent: "gantry-simulate",
		WarningHandler: restclient.NoWarnings{}}
	s.config.ContentType = "application/vnd.kubernetes.protobuf"
	if s.client, err = kubernetes.NewForConfig(s.config); err != nil {
		return nil, err
	}
	return s, s.makeAdmission(o.Informers)
}

// Close ends what admission plugins run.
func (s *Server) Close() { close(s.stop) }

// Client returns a client that may do everything.
func (s *Server) Client() kubernetes.Interface { return s.client }

// Metadata returns a client of metadata.
func (s *Server) Metadata() (metadata.Interface, error) { return metadata.NewForConfig(s.config) }

// KindOf returns the definition of a kind; false: it is not served.
func (s *Server) KindOf(gvk schema.GroupVersionKind) (resourcedef.Kind, bool) {
	k, ok := s.kinds[gvk]
	return k, ok
}

// restOptions opens every resource in the store, under its name and group.
type restOptions struct{ store *memstore.Store }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o restOptions) GetRESTOptions(r schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{StorageConfig: &storagebackend.ConfigForResource{GroupResource: r},
		Decorator: o.store.Decorator(), EnableGarbageCollection: true, DeleteCollectionWorkers: 1,
		ResourcePrefix: Prefix(r)}, nil
}

// Prefix is where the store has the objects of a resource.
func Prefix(r schema.GroupResource) string { return "/" + r.String() }

// skippedPlugins are admission plugins about who asks, which is nobody here.
var skippedPlugins = map[string]bool{"NodeRestriction": true, "CertificateApproval": true, "CertificateSigning": true,
	"ClusterTrustBundleAttest": true, "CertificateSubjectRestriction": true}

// makeAdmission makes the plugins of the real server, in its order.
func (s *Server) makeAdmission(f informers.SharedInformerFactory) error {
	all := admission.NewPlugins()
	lifecycle.Register(all)
	names := []string{lifecycle.PluginName}
	for _, p := range gantryadmission.Plugins(gantryadmission.Options{}) {
		if !skippedPlugins[p.Name] {
			all.Register(p.Name, p.Factory)
			names = append(names, p.Name)
		}
	}
	init := initializer.New(s.client, nil, f, nil, feature.DefaultFeatureGate, nil, s.stop, nil)
	chain, err := all.NewFromPlugins(names, noConfig{}, init, admission.Decorators{})
	if err != nil {
		return fmt.Errorf("admission of the simulated cluster: %w", err)
	}
	s.admission = chain
	return nil
}

// noConfig is an admission.ConfigProvider without files.
type noConfig struct{}

// ConfigFor implements admission.ConfigProvider.
func (noConfig) ConfigFor(string) (io.Reader, error) { return nil, nil }

// coreGroup is the group version of Pods and nodes.
var coreGroup = corev1.SchemeGroupVersion
