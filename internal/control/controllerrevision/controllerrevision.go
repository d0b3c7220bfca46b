// Package controllerrevision manages the ControllerRevisions in which StatefulSets and DaemonSets
// store their Pod templates.
//
// In: a template, the existing revisions. Out: the template's revision, new or existing; which old
// ones to delete. write.go has the API calls, the rest is pure; statefulset and daemonset use it.
package controllerrevision

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"sort"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
)

// HashLabel is the ControllerRevision label with the hash of its data.
const HashLabel = "controller.kubernetes.io/hash"

// Owner is the object with the template.
type Owner struct {
	Object     metav1.Object
	Kind       schema.GroupVersionKind
	Template   *corev1.PodTemplateSpec
	Collisions int32
	Label      string // label with the hash; empty: HashLabel
}

// Match is the revision of a template, and what to write.
type Match struct {
	Revision *appsv1.ControllerRevision
	Create   bool // it does not exist yet
	Renumber bool // it exists but is not the newest: raise its number
}

// Find returns the revision of the owner's template: an existing one or a new one. Numbers start at
// 1.
func Find(o Owner, have []*appsv1.ControllerRevision) (Match, error) {
	data, err := patch(o.Template)
	if err != nil {
		return Match{}, err
	}
	Sort(have)
	next := int64(1)
	if len(have) > 0 {
		next = have[len(have)-1].Revision + 1
	}
	for i := len(have) - 1; i >= 0; i-- {
		if !sameData(have[i].Data.Raw, data) {
			continue
		}
		if i == len(have)-1 {
			return Match{Revision: have[i]}, nil
		}
		r := have[i].DeepCopy()
		r.Revision = next
		return Match{Revision: r, Renumber: true}, nil
	}
	hash := hashOf(data, o.Collisions)
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: name(o.Object.GetName(), hash), Namespace: o.Object.GetNamespace(), Labels: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.Object, o.Kind)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: next,
	}
	for k, v := range o.Template.Labels {
		r.Labels[k] = v
	}
	label := o.Label
	if label == "" {
		label = HashLabel
	}
	r.Labels[label] = hash
	return Match{Revision: r, Create: true}, nil
}

// Same reports whether two revisions hold the same template.
func Same(a, b *appsv1.ControllerRevision) bool { return sameData(a.Data.Raw, b.Data.Raw) }

// Sort sorts revisions by number, the newest last.
func Sort(all []*appsv1.ControllerRevision) {
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if a.Revision != b.Revision {
			return a.Revision < b.Revision
		}
		if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
			return a.CreationTimestamp.Before(&b.CreationTimestamp)
		}
		return a.Name < b.Name
	})
}

// ToDelete returns the oldest revisions beyond the limit; those in use do not count and are kept.
func ToDelete(all []*appsv1.ControllerRevision, inUse map[string]bool, limit int) []*appsv1.ControllerRevision {
	Sort(all)
	var idle []*appsv1.ControllerRevision
	for _, r := range all {
		if !inUse[r.Name] {
			idle = append(idle, r)
		}
	}
	return idle[:max(len(idle)-max(limit, 0), 0)]
}

// Template returns the stored template.
func Template(r *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var retained struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &retained); err != nil {
		return nil, fmt.Errorf("data of ControllerRevision %s: %w", r.Name, err)
	}
	return &retained.Spec.Template, nil
}

// patch returns the template as the patch that kubectl rollout undo applies: it replaces the whole.
func patch(t *corev1.PodTemplateSpec) ([]byte, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	var template map[string]any
	if err := json.Unmarshal(raw, &template); err != nil {
		return nil, err
	}
	template["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
}

func sameData(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

func hashOf(data []byte, collisions int32) string {
	h := fnv.New32a()
	h.Write(data)
	if collisions != 0 {
		fmt.Fprintf(h, "%d", collisions)
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// maxOwnerName leaves room for a dash and the hash in a name that is also a label value.
const maxOwnerName = 223

func name(owner, hash string) string {
	return owner[:min(len(owner), maxOwnerName)] + "-" + hash
}
