package finding

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Change is the newest change of an object after it was made, as its managedFields tell it.
type Change struct {
	At      time.Time
	Manager string
	Keys    []string // of data, in order, that its manager wrote
	Exact   bool     // no others of them were written before
}

// LastChange returns the newest change of an object's fields; false where it was not changed since
// it was made, or its managedFields do not say.
func LastChange(o metav1.Object) (Change, bool) {
	if o == nil {
		return Change{}, false
	}
	var last *metav1.ManagedFieldsEntry
	all := map[string]bool{}
	for _, m := range o.GetManagedFields() {
		if m.Subresource != "" || m.Time == nil {
			continue
		}
		for _, k := range dataKeys(m) {
			all[k] = true
		}
		if last == nil || last.Time.Before(m.Time) {
			last = &m
		}
	}
	if last == nil || !last.Time.After(o.GetCreationTimestamp().Time) {
		return Change{}, false
	}
	c := Change{At: last.Time.Time, Manager: last.Manager, Keys: dataKeys(*last)}
	c.Exact = len(c.Keys) == 1 || len(c.Keys) < len(all)
	return c, true
}

// dataKeys are the keys of data that an entry of managedFields owns.
func dataKeys(m metav1.ManagedFieldsEntry) []string {
	if m.FieldsV1 == nil {
		return nil
	}
	var owned map[string]json.RawMessage
	if json.Unmarshal(m.FieldsV1.Raw, &owned) != nil {
		return nil
	}
	out := map[string]bool{}
	for _, set := range []string{"f:data", "f:binaryData"} {
		var keys map[string]json.RawMessage
		if json.Unmarshal(owned[set], &keys) != nil {
			continue
		}
		for k := range keys {
			if name, ok := strings.CutPrefix(k, "f:"); ok {
				out[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// Values are the values of a ConfigMap; nil of other objects.
func Values(o metav1.Object) map[string]string {
	if m, ok := o.(*corev1.ConfigMap); ok {
		return m.Data
	}
	return nil
}
