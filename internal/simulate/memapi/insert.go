package memapi

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Insert stores an object as it is, past admission and validation, with defaults filled in: it
// comes from a cluster that has taken it already. Its kind must be one that is served. The object
// is kept.
func (s *Server) Insert(o runtime.Object) error {
	gvk, err := s.GVKOf(o)
	if err != nil {
		return err
	}
	k, ok := s.kinds[gvk]
	if !ok {
		return fmt.Errorf("kind %s is not served", gvk)
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	if d := k.Rules.Default; d != nil {
		d(o)
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	prefix := Prefix(schema.GroupResource{Group: k.Group, Resource: k.Resource})
	key := prefix + "/"
	if k.Types.Namespaced {
		key += m.GetNamespace() + "/"
	}
	if err := s.store.Insert(prefix, key+m.GetName(), o); err != nil {
		return fmt.Errorf("%s %w", k.Kind, err)
	}
	return nil
}

// GVKOf returns the served group, version and kind of a typed object.
func (s *Server) GVKOf(o runtime.Object) (schema.GroupVersionKind, error) {
	all, _, err := s.scheme.Served.ObjectKinds(o)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return all[0], nil
}

// Decode reads one object from YAML-free JSON, with defaults.
func (s *Server) Decode(raw []byte) (runtime.Object, error) {
	o, _, err := s.scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	return o, err
}
