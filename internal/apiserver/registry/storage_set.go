package registry

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/journal"
)

// Options are the arguments of Build.
type Options struct {
	Scheme      *runtime.Scheme
	RESTOptions generic.RESTOptionsGetter
	Journal     journal.Sink // facts about writes of Pods; nil drops them
	// Wrap replaces the served storage of a resource by one around its store (RBAC escalation
	// checks); Lookup still returns the store itself.
	Wrap map[schema.GroupResource]func(rest.StandardStorage) rest.Storage
	// Extra becomes resourcedef.Deps.Extra.
	Extra any
}

// StorageSet is the storages of all kinds. Build and Add fill it before the server starts; after
// that it is safe for concurrent reads.
type StorageSet struct {
	stores   map[schema.GroupResource]*Store
	versions map[schema.GroupVersion]map[string]rest.Storage
	order    []schema.GroupVersion
}

// Build makes the storages of all kinds and their subresources. Of kinds with the same group,
// version and resource the last one counts. A kind whose hub type is another group's
// (Types.Internal) must follow that kind.
func Build(kinds []resourcedef.Kind, o Options) (*StorageSet, error) {
	s := &StorageSet{stores: map[schema.GroupResource]*Store{},
		versions: map[schema.GroupVersion]map[string]rest.Storage{}}
	if o.Journal == nil {
		o.Journal = journal.Discard{}
	}
	kinds = Deduplicate(kinds)
	for i := range kinds {
		if err := s.addStore(&kinds[i], o); err != nil {
			return nil, fmt.Errorf("storage of %s: %w", kinds[i].Resource, err)
		}
	}
	for i := range kinds {
		if err := s.addSubresources(&kinds[i], o); err != nil {
			return nil, fmt.Errorf("subresources of %s: %w", kinds[i].Resource, err)
		}
	}
	return s, nil
}

// Deduplicate returns the last kind of each group, version and resource, in the order of their
// first appearance.
func Deduplicate(kinds []resourcedef.Kind) []resourcedef.Kind {
	at := map[schema.GroupVersionResource]int{}
	var out []resourcedef.Kind
	for _, k := range kinds {
		gvr := schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
		if i, ok := at[gvr]; ok {
			out[i] = k
			continue
		}
		at[gvr] = len(out)
		out = append(out, k)
	}
	return out
}

// addStore makes the main store of a kind, or uses the store of the kind whose hub type it has.
func (s *StorageSet) addStore(k *resourcedef.Kind, o Options) error {
	gr := schema.GroupResource{Group: k.Group, Resource: k.Resource}
	shared := schema.GroupResource{Group: k.Types.Internal.Group, Resource: k.Resource}
	if k.Types.Internal.Kind != "" {
		store, ok := s.stores[shared]
		if !ok {
			return fmt.Errorf("its hub %s is not served, or listed after it", k.Types.Internal)
		}
		s.stores[gr] = store
		s.addStorage(k, k.Resource, store)
		return nil
	}
	store, err := newStore(k, o)
	if err != nil {
		return err
	}
	s.stores[gr] = store
	var served rest.Storage = store
	if rules := o.Wrap[gr]; rules != nil {
		served = wrapStore(store, rules(store))
	}
	s.addStorage(k, k.Resource, served)
	return nil
}

// addSubresources makes the status, scale and further subresources of a kind. It is an error if one
// of them changes the main store.
func (s *StorageSet) addSubresources(k *resourcedef.Kind, o Options) error {
	store := s.stores[schema.GroupResource{Group: k.Group, Resource: k.Resource}]
	d, complete := resourcedef.Deps{Store: store, Lookup: s.Lookup, Extra: o.Extra}, *store.Store
	if k.Types.HasStatus {
		status := newStatusREST(k, store)
		d.Status = status
		s.addStorage(k, k.Resource+"/status", status)
	}
	if scale := newScaleREST(k, store); scale != nil {
		s.addStorage(k, k.Resource+"/scale", scale)
	}
	if k.Subresources == nil {
		return nil
	}
	for name, storage := range k.Subresources(d) {
		if strings.Contains(name, "/") || storage == nil {
			return fmt.Errorf("subresource %q: a name without a slash and a storage are needed", name)
		}
		s.addStorage(k, k.Resource+"/"+name, storage)
	}
	if changed := differingFields(&complete, store.Store); len(changed) > 0 {
		return fmt.Errorf("they change %s of the main store, which is complete: make it a rule of the row",
			strings.Join(changed, ", "))
	}
	return nil
}

// differingFields returns the names of the fields in which two stores differ. Functions are equal
// if they have the same code.
func differingFields(a, b *genericregistry.Store) (out []string) {
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		x, y, same := va.Field(i), vb.Field(i), false
		switch {
		case x.Kind() == reflect.Func:
			same = x.Pointer() == y.Pointer()
		case x.Comparable() && y.Comparable():
			same = x.Equal(y)
		case x.CanInterface():
			same = reflect.DeepEqual(x.Interface(), y.Interface())
		}
		if !same {
			out = append(out, va.Type().Field(i).Name)
		}
	}
	return out
}

// addStorage adds a storage of a kind under a path such as "pods/status".
func (s *StorageSet) addStorage(k *resourcedef.Kind, path string, storage rest.Storage) {
	s.Add(schema.GroupVersion{Group: k.Group, Version: k.Version}, path, storage)
}

// Add adds a storage without a resourcedef.Kind, such as a create-only review; path may name a
// subresource after a slash.
func (s *StorageSet) Add(gv schema.GroupVersion, path string, storage rest.Storage) {
	if s.versions[gv] == nil {
		s.versions[gv] = map[string]rest.Storage{}
		s.order = append(s.order, gv)
	}
	s.versions[gv][path] = storage
}

// Versions returns the group versions with storages, in the order in which they were added.
func (s *StorageSet) Versions() []schema.GroupVersion { return s.order }

// Storages returns the storages of a group version by path.
func (s *StorageSet) Storages(gv schema.GroupVersion) map[string]rest.Storage { return s.versions[gv] }

// Lookup returns the main store of a resource; nil if it is not served.
func (s *StorageSet) Lookup(group, resource string) rest.StandardStorage {
	if store, ok := s.stores[schema.GroupResource{Group: group, Resource: resource}]; ok {
		return store
	}
	return nil
}
