package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Store is the main endpoint of a kind: the library's store with names for kubectl and the warnings
// of deletes.
type Store struct {
	*genericregistry.Store
	kind *resourcedef.Kind
}

// ShortNames implements rest.ShortNamesProvider.
func (s *Store) ShortNames() []string { return s.kind.Names.Short }

// Categories implements rest.CategoriesProvider.
func (s *Store) Categories() []string { return s.kind.Names.Categories }

// orphanedPodsWarning is upstream's warning for deletes of Jobs without a propagation policy.
const orphanedPodsWarning = "child pods are preserved by default when jobs are deleted; set " +
	"propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

// warnDelete adds orphanedPodsWarning to the response where it applies.
func (s *Store) warnDelete(ctx context.Context, o *metav1.DeleteOptions) {
	if s.kind.Group == "batch" && s.kind.Resource == "jobs" && o != nil && o.PropagationPolicy == nil &&
		o.OrphanDependents == nil {
		warning.AddWarning(ctx, "", orphanedPodsWarning)
	}
}

// Delete implements rest.GracefulDeleter.
func (s *Store) Delete(ctx context.Context, name string, v rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	s.warnDelete(ctx, o)
	return s.Store.Delete(ctx, name, v, o)
}

// DeleteCollection implements rest.CollectionDeleter.
func (s *Store) DeleteCollection(ctx context.Context, v rest.ValidateObjectFunc, o *metav1.DeleteOptions,
	l *metainternalversion.ListOptions) (runtime.Object, error) {
	s.warnDelete(ctx, o)
	return s.Store.DeleteCollection(ctx, v, o, l)
}

// newStore returns the main store of a kind, with its storage opened.
func newStore(k *resourcedef.Kind, o Options) (*Store, error) {
	st := &strategy{ObjectTyper: o.Scheme, kind: k}
	gr := schema.GroupResource{Group: k.Group, Resource: k.Resource}
	s := &genericregistry.Store{
		NewFunc: k.Types.New, NewListFunc: k.Types.NewList,
		DefaultQualifiedResource:  gr,
		SingularQualifiedResource: schema.GroupResource{Group: k.Group, Resource: k.Singular},
		CreateStrategy:            st, UpdateStrategy: st, DeleteStrategy: st, ResetFieldsStrategy: st,
		TableConvertor:      &tableConvertor{Table: k.Table, resource: gr},
		ReturnDeletedObject: returnDeletedObject[gr],
	}
	setHooks(s, &k.Rules)
	s.ShouldDeleteDuringUpdate = k.Stored.DeleteDuringUpdate
	options := &generic.StoreOptions{RESTOptions: o.RESTOptions, AttrFunc: getAttrs(k)}
	if field := k.Rules.IndexedField; field != "" {
		options.TriggerFunc, options.Indexers = indexersFor(k, field)
	}
	s.PredicateFunc = matchPredicate(k, options.AttrFunc)
	if ttl := k.Types.EventTTL; ttl > 0 {
		s.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return ttl, nil }
	}
	if err := s.CompleteWithOptions(options); err != nil {
		return nil, err
	}
	if gr.Group == "" && gr.Resource == "pods" {
		s.Storage.Storage = &journalStorage{Interface: s.Storage.Storage, versioner: s.Storage.Versioner(),
			sink: o.Journal}
	}
	if wrap := k.Stored.Wrap; wrap != nil {
		s.Storage.Storage = wrap(s.Storage.Storage)
	}
	return &Store{Store: s, kind: k}, nil
}

// returnDeletedObject lists the resources whose delete returns the object instead of a Status, as
// upstream.
var returnDeletedObject = map[schema.GroupResource]bool{
	{Resource: "pods"}: true, {Resource: "podtemplates"}: true, {Resource: "persistentvolumes"}: true,
	{Resource: "persistentvolumeclaims"}: true,
	{Resource: "resourcequotas"}:         true, {Resource: "serviceaccounts"}: true, {Resource: "services"}: true,
	{Resource: "namespaces"}:                                           true,
	{Group: "storage.k8s.io", Resource: "storageclasses"}:              true,
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:           true,
	{Group: "storage.k8s.io", Resource: "csinodes"}:                    true,
	{Group: "storage.k8s.io", Resource: "csidrivers"}:                  true,
	{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}:     true,
	{Group: "resource.k8s.io", Resource: "deviceclasses"}:              true,
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:             true,
	{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"}:     true,
	{Group: "resource.k8s.io", Resource: "resourceslices"}:             true,
	{Group: "resource.k8s.io", Resource: "resourcepoolstatusrequests"}: true,
}

// setHooks sets the Begin and After hooks of a kind on its store.
func setHooks(s *genericregistry.Store, r *resourcedef.Rules) {
	if begin := r.BeginCreate; begin != nil {
		s.BeginCreate = func(ctx context.Context, obj runtime.Object,
			o *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
			return newFinishFunc(begin(ctx, obj, len(o.DryRun) > 0))
		}
	}
	if begin := r.BeginUpdate; begin != nil {
		s.BeginUpdate = func(ctx context.Context, obj, old runtime.Object,
			o *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
			return newFinishFunc(begin(ctx, obj, old, len(o.DryRun) > 0))
		}
	}
	if after := r.AfterDelete; after != nil {
		s.AfterDelete = func(obj runtime.Object, o *metav1.DeleteOptions) {
			if o == nil || len(o.DryRun) == 0 {
				after(obj)
			}
		}
	}
}

// newFinishFunc adapts what a Begin hook returns.
func newFinishFunc(end func(ok bool), err error) (genericregistry.FinishFunc, error) {
	if err != nil {
		return nil, err
	}
	if end == nil {
		end = func(bool) {}
	}
	return func(_ context.Context, ok bool) { end(ok) }, nil
}

// getAttrs returns the function that gives an object's labels and selectable fields.
func getAttrs(k *resourcedef.Kind) storage.AttrFunc {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, nil, err
		}
		var f fields.Set
		if k.Rules.Fields != nil {
			f = k.Rules.Fields(obj)
		}
		if f == nil {
			f = fields.Set{}
		}
		f["metadata.name"] = m.GetName()
		if k.Types.Namespaced {
			f["metadata.namespace"] = m.GetNamespace()
		}
		return m.GetLabels(), f, nil
	}
}

// matchPredicate returns the function that makes selection predicates. An indexed field is named in
// them, so that the watch cache dispatches and lists by its value.
func matchPredicate(k *resourcedef.Kind,
	a storage.AttrFunc) func(labels.Selector, fields.Selector) storage.SelectionPredicate {
	var indexed []string
	if k.Rules.IndexedField != "" {
		indexed = []string{k.Rules.IndexedField, "metadata.namespace"}
	}
	return func(l labels.Selector, f fields.Selector) storage.SelectionPredicate {
		return storage.SelectionPredicate{Label: l, Field: f, GetAttrs: a, IndexFields: indexed}
	}
}

// indexersFor returns the watch cache's trigger and indexers for one selectable field.
func indexersFor(k *resourcedef.Kind, field string) (storage.IndexerFuncs, *cache.Indexers) {
	value := func(obj runtime.Object) string { return k.Rules.Fields(obj)[field] }
	return storage.IndexerFuncs{field: value}, &cache.Indexers{
		storage.FieldIndex(field): func(obj any) ([]string, error) {
			return []string{value(obj.(runtime.Object))}, nil
		},
		storage.FieldIndex("metadata.namespace"): func(obj any) ([]string, error) {
			m, err := meta.Accessor(obj)
			if err != nil {
				return nil, err
			}
			return []string{m.GetNamespace()}, nil
		},
	}
}
