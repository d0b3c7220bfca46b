package apiserver

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
)

// discoveryTimeout bounds how long a discovery request waits for definitions.
const discoveryTimeout = 10 * time.Second

// crdDiscovery delays requests for discovery documents until these list every custom resource whose
// definition a client can have seen as established. The library writes the condition first and
// lists the resource when its informer sees that; a client that waits for the condition and
// then reads discovery, as Helm does, would miss the kind in between. Safe for concurrent use.
type crdDiscovery struct {
	storage    storage.Interface      // of the definitions, with their watch cache
	registered func(name string) bool // whether the APIService exists; nil without an aggregator

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a field below or an APIService changes
	listed  map[schema.GroupVersion]sets.Set[string]
	// shown are established definitions, by name, that were written or read here last and are not
	// listed yet; the watch cache may not have them.
	shown map[string]*apiextensions.CustomResourceDefinition
	// late are definitions, by name, that were not listed in time. Nobody waits for them again
	// until what they say changes.
	late map[string]lateDefinition
}

// lateDefinition tells versions of a definition apart by what they say, whatever is written to
// their status.
type lateDefinition struct {
	uid        types.UID
	generation int64
}

func (l lateDefinition) is(crd *apiextensions.CustomResourceDefinition) bool {
	return l == lateDefinition{crd.UID, crd.Generation}
}

// newCRDDiscovery returns a crdDiscovery without storage and APIServices.
func newCRDDiscovery() *crdDiscovery {
	return &crdDiscovery{changed: make(chan struct{}), listed: map[schema.GroupVersion]sets.Set[string]{},
		shown: map[string]*apiextensions.CustomResourceDefinition{}, late: map[string]lateDefinition{}}
}

// watchAPIServices makes requests wait for the APIServices of definitions too. Called before the
// server serves.
func (d *crdDiscovery) watchAPIServices(agg *aggregator.APIAggregator) error {
	informer := agg.APIRegistrationInformers.Apiregistration().V1().APIServices()
	d.registered = func(name string) bool {
		_, err := informer.Lister().Get(name)
		return err == nil
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { d.update(func() {}) },
	})
	return err
}

// update runs change, drops what is listed now, and wakes the requests that wait.
func (d *crdDiscovery) update(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
	for name, crd := range d.shown {
		if d.lists(crd) {
			delete(d.shown, name)
		}
	}
	close(d.changed)
	d.changed = make(chan struct{})
}

// withCRDDiscovery delays discovery requests (crdDiscovery).
func (b *builder) withCRDDiscovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if group, ok := discoveryGroup(req); ok && b.crdDiscovery != nil {
			b.crdDiscovery.wait(req.Context(), group)
		}
		next.ServeHTTP(w, req)
	})
}

// discoveryGroup reports whether the request is for a discovery document of named groups, and of
// which group; empty stands for all.
func discoveryGroup(req *http.Request) (string, bool) {
	part := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if req.Method != http.MethodGet || part[0] != "apis" || len(part) > 3 {
		return "", false
	}
	if len(part) == 1 {
		return "", true
	}
	return part[1], true
}

// wait returns when discovery lists the established definitions of group (empty: of all groups),
// when ctx ends, or after discoveryTimeout.
func (d *crdDiscovery) wait(ctx context.Context, group string) {
	var timeout <-chan time.Time
	for {
		d.mu.Lock()
		changed := d.changed
		d.mu.Unlock()
		missing := d.missing(ctx, group)
		if len(missing) == 0 {
			return
		}
		if timeout == nil {
			t := time.NewTimer(discoveryTimeout)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-timeout:
			d.update(func() {
				for _, crd := range missing {
					delete(d.shown, crd.Name)
					d.late[crd.Name] = lateDefinition{crd.UID, crd.Generation}
				}
			})
			return
		}
	}
}

// missing returns the established definitions of group that discovery does not list.
func (d *crdDiscovery) missing(ctx context.Context, group string) []*apiextensions.CustomResourceDefinition {
	var list apiextensions.CustomResourceDefinitionList
	err := d.storage.GetList(ctx, "/apiextensions.k8s.io/customresourcedefinitions", storage.ListOptions{
		ResourceVersion: "0", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		Predicate: storage.Everything, Recursive: true}, &list)
	if err != nil {
		return nil // the request itself tells what is wrong
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*apiextensions.CustomResourceDefinition
	for _, crd := range d.shown {
		if (group == "" || group == crd.Spec.Group) && !d.lists(crd) {
			out = append(out, crd)
		}
	}
	for i := range list.Items {
		crd := &list.Items[i]
		if (group == "" || group == crd.Spec.Group) && !d.late[crd.Name].is(crd) && !d.lists(crd) {
			out = append(out, crd)
		}
	}
	return out
}

// lists reports whether discovery lists all that the definition serves. d.mu is held.
func (d *crdDiscovery) lists(crd *apiextensions.CustomResourceDefinition) bool {
	if !apiextensions.IsCRDConditionTrue(crd, apiextensions.Established) {
		return true
	}
	for _, v := range crd.Spec.Versions {
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}
		if v.Served && (!d.listed[gv].Has(crd.Status.AcceptedNames.Plural) ||
			d.registered != nil && !d.registered(gv.Version+"."+gv.Group)) {
			return false
		}
	}
	return true
}

// wrapStorage returns the storage of the definitions, watched for those that become established.
func (d *crdDiscovery) wrapStorage(s storage.Interface) storage.Interface {
	d.storage = s
	return &crdStorage{s, d}
}

// crdStorage notes established definitions in crdDiscovery before a client can see them.
type crdStorage struct {
	storage.Interface
	discovery *crdDiscovery
}

// Get implements storage.Interface.
func (s *crdStorage) Get(ctx context.Context, key string, o storage.GetOptions, out runtime.Object) error {
	err := s.Interface.Get(ctx, key, o, out)
	if err == nil {
		s.note(out)
	}
	return err
}

// GuaranteedUpdate implements storage.Interface. An update that fails leaves no note.
func (s *crdStorage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	pre *storage.Preconditions, try storage.UpdateFunc, cached runtime.Object) error {
	var noted *apiextensions.CustomResourceDefinition
	err := s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, pre,
		func(in runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
			obj, ttl, err := try(in, meta)
			s.forget(noted)
			if noted = nil; err == nil {
				noted = s.note(obj)
			}
			return obj, ttl, err
		}, cached)
	if err != nil {
		s.forget(noted)
	}
	return err
}

// Delete implements storage.Interface.
func (s *crdStorage) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, o storage.DeleteOptions) error {
	err := s.Interface.Delete(ctx, key, out, pre, validate, cached, o)
	if crd, ok := out.(*apiextensions.CustomResourceDefinition); err == nil && ok {
		d := s.discovery
		d.update(func() {
			delete(d.late, crd.Name)
			delete(d.shown, crd.Name)
		})
	}
	return err
}

// note remembers a copy of obj if it is an established definition that discovery does not list,
// and returns it; nil if not.
func (s *crdStorage) note(obj runtime.Object) *apiextensions.CustomResourceDefinition {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return nil
	}
	d := s.discovery
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lists(crd) || d.late[crd.Name].is(crd) {
		delete(d.shown, crd.Name) // what was shown of it before is no more
		return nil
	}
	own := crd.DeepCopy()
	d.shown[crd.Name] = own
	return own
}

// forget takes a note back.
func (s *crdStorage) forget(crd *apiextensions.CustomResourceDefinition) {
	if crd != nil {
		s.discovery.update(func() {
			if s.discovery.shown[crd.Name] == crd {
				delete(s.discovery.shown, crd.Name)
			}
		})
	}
}

// crdResourceManager tells crdDiscovery what the definitions' server lists. The library sets the
// documents of a group and of a version before it calls AddGroupVersion.
type crdResourceManager struct {
	aggregated.ResourceManager
	discovery *crdDiscovery
}

// AddGroupVersion implements aggregated.ResourceManager.
func (m crdResourceManager) AddGroupVersion(group string, v apidiscoveryv2.APIVersionDiscovery) {
	m.ResourceManager.AddGroupVersion(group, v)
	names := sets.New[string]()
	for _, r := range v.Resources {
		names.Insert(r.Resource)
	}
	m.discovery.update(func() {
		m.discovery.listed[schema.GroupVersion{Group: group, Version: v.Version}] = names
	})
}

// RemoveGroup implements aggregated.ResourceManager.
func (m crdResourceManager) RemoveGroup(group string) {
	m.discovery.update(func() {
		for gv := range m.discovery.listed {
			if gv.Group == group {
				delete(m.discovery.listed, gv)
			}
		}
	})
	m.ResourceManager.RemoveGroup(group)
}

// RemoveGroupVersion implements aggregated.ResourceManager.
func (m crdResourceManager) RemoveGroupVersion(gv metav1.GroupVersion) {
	m.discovery.update(func() { delete(m.discovery.listed, schema.GroupVersion(gv)) })
	m.ResourceManager.RemoveGroupVersion(gv)
}

// WithSource implements aggregated.ResourceManager.
func (m crdResourceManager) WithSource(s aggregated.Source) aggregated.ResourceManager {
	return crdResourceManager{m.ResourceManager.WithSource(s), m.discovery}
}
