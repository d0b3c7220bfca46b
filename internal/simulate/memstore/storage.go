package memstore

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// Decorator returns what the registry makes a resource's storage with.
func (s *Store) Decorator() generic.StorageDecorator {
	return func(_ *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error),
		newObject, _ func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs,
		_ *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		return &resource{store: s, prefix: prefix, newObject: newObject}, func() {}, nil
	}
}

// resource is the storage of one resource. There are no watches: whoever wants changes takes them
// from the Store.
type resource struct {
	store     *Store
	prefix    string
	newObject func() runtime.Object
}

var _ storage.Interface = (*resource)(nil)

// Versioner implements storage.Interface.
func (r *resource) Versioner() storage.Versioner { return versioner }

// Create implements storage.Interface.
func (r *resource) Create(_ context.Context, key string, obj, out runtime.Object, _ uint64) error {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	if _, there := r.store.objects[r.prefix][key]; there {
		return storage.NewKeyExistsError(key, 0)
	}
	o := obj.DeepCopyObject()
	if err := r.store.stampNew(key, o); err != nil {
		return err
	}
	r.store.put(r.prefix, key, nil, o)
	return assign(out, o)
}

// Delete implements storage.Interface.
func (r *resource) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	r.store.mu.Lock()
	o, there := r.store.objects[r.prefix][key]
	r.store.mu.Unlock()
	if !there {
		return storage.NewKeyNotFoundError(key, 0)
	}
	if err := pre.Check(key, o); err != nil {
		return err
	}
	if validate != nil {
		if err := validate(ctx, o.DeepCopyObject()); err != nil {
			return err
		}
	}
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	delete(r.store.objects[r.prefix], key)
	r.store.revision++
	gone := o.DeepCopyObject()
	if err := versioner.UpdateObject(gone, r.store.revision); err != nil {
		return err
	}
	r.store.changes = append(r.store.changes, Change{Old: gone})
	return assign(out, gone)
}

// Watch implements storage.Interface: it is refused.
func (r *resource) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return nil, fmt.Errorf("%s of a simulated cluster cannot be watched", strings.TrimPrefix(r.prefix, "/"))
}

// Get implements storage.Interface.
func (r *resource) Get(_ context.Context, key string, o storage.GetOptions, out runtime.Object) error {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	found, there := r.store.objects[r.prefix][key]
	switch {
	case !there && o.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	case !there:
		return storage.NewKeyNotFoundError(key, 0)
	}
	return assign(out, found)
}

// GetList implements storage.Interface; lists are whole, without continue tokens.
func (r *resource) GetList(_ context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	v, err := conversion.EnforcePtr(items)
	if err != nil || v.Kind() != reflect.Slice {
		return fmt.Errorf("%T is not a list: %w", list, err)
	}
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	of := r.store.objects[r.prefix]
	add := func(obj runtime.Object) error {
		match, err := o.Predicate.Matches(obj)
		if err == nil && match {
			v.Set(reflect.Append(v, reflect.ValueOf(obj.DeepCopyObject()).Elem()))
		}
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(of)) {
		if k != key && (!o.Recursive || !strings.HasPrefix(k, strings.TrimSuffix(key, "/")+"/")) {
			continue
		}
		if err := add(of[k]); err != nil {
			return err
		}
	}
	if v.IsNil() {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	}
	return versioner.UpdateList(list, r.store.revision, "", nil)
}

// GuaranteedUpdate implements storage.Interface. A write that changes nothing is none.
func (r *resource) GuaranteedUpdate(_ context.Context, key string, out runtime.Object, ignoreNotFound bool,
	pre *storage.Preconditions, try storage.UpdateFunc, _ runtime.Object) error {
	for {
		r.store.mu.Lock()
		old, there := r.store.objects[r.prefix][key]
		r.store.mu.Unlock()
		if !there && !ignoreNotFound {
			return storage.NewKeyNotFoundError(key, 0)
		}
		in, revision := r.newObject(), uint64(0)
		if there {
			in = old.DeepCopyObject()
			revision, _ = versioner.ObjectResourceVersion(old)
		}
		if err := pre.Check(key, in); err != nil {
			return err
		}
		made, _, err := try(in, storage.ResponseMeta{ResourceVersion: revision})
		if err != nil {
			return err
		}
		if done, err := r.replace(key, old, made.DeepCopyObject(), out); done || err != nil {
			return err
		}
	}
}

// replace stores made in the place of old; false: another write came in between.
func (r *resource) replace(key string, old, made, out runtime.Object) (bool, error) {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	if now := r.store.objects[r.prefix][key]; now != old {
		return false, nil
	}
	if old == nil {
		if err := r.store.stampNew(key, made); err != nil {
			return true, err
		}
	} else {
		r.store.stampChanged(old, made)
		if err := versioner.PrepareObjectForStorage(made); err != nil {
			return true, err
		}
		same := old.DeepCopyObject()
		if err := versioner.PrepareObjectForStorage(same); err != nil {
			return true, err
		}
		if equality.Semantic.DeepEqual(same, made) {
			return true, assign(out, old)
		}
	}
	r.store.put(r.prefix, key, old, made)
	return true, assign(out, made)
}

// Stats implements storage.Interface.
func (r *resource) Stats(context.Context) (storage.Stats, error) {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	return storage.Stats{ObjectCount: int64(len(r.store.objects[r.prefix]))}, nil
}

// ReadinessCheck implements storage.Interface.
func (r *resource) ReadinessCheck() error { return nil }

// RequestWatchProgress implements storage.Interface.
func (r *resource) RequestWatchProgress(context.Context) error { return nil }

// GetCurrentResourceVersion implements storage.Interface.
func (r *resource) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return r.store.Revision(), nil
}

// EnableResourceSizeEstimation implements storage.Interface.
func (r *resource) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// CompactRevision implements storage.Interface.
func (r *resource) CompactRevision() int64 { return 0 }

// assign copies an object into out.
func assign(out, o runtime.Object) error {
	v, err := conversion.EnforcePtr(out)
	if err != nil {
		return err
	}
	v.Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
	return nil
}
