package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/simulate/fork"
)

// Apply creates objects, and brings those that are there to the fields that are given. Fields that
// an earlier manifest gave and these do not stay as they are, unlike with `kubectl apply`.
type Apply struct {
	Objects   []runtime.Object
	Namespace string // of objects that name none
	Files     []string

	workloads []Object
}

// Verb implements Change.
func (*Apply) Verb() string { return "apply" }

// Target implements Change.
func (a *Apply) Target() []string { return a.Files }

// Begin implements Change.
func (a *Apply) Begin(ctx context.Context, r *Run) error {
	for _, o := range a.Objects {
		if err := a.apply(ctx, r, o.DeepCopyObject()); err != nil {
			return err
		}
		if err := r.Cluster.Settle(ctx); err != nil { // admission plugins learn of the object
			return err
		}
	}
	return nil
}

func (a *Apply) apply(ctx context.Context, r *Run, o runtime.Object) error {
	gvk, resource, namespaced := r.Cluster.Served(o)
	if resource == "" {
		return fmt.Errorf("objects of type %T are not served", o)
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	if namespaced && m.GetNamespace() == "" {
		m.SetNamespace(a.Namespace)
	}
	if _, rolls := resources[gvk.Kind]; rolls && gvk.Kind != "ReplicaSet" {
		a.workloads = append(a.workloads, Object{gvk.Kind, m.GetNamespace(), m.GetName()})
	}
	client := r.Cluster.Client().Discovery().RESTClient()
	path := fork.Path(gvk.GroupVersion(), resource, m.GetNamespace()) + "/" + m.GetName()
	err = client.Get().AbsPath(path).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return r.Cluster.Create(ctx, o)
	}
	if err != nil {
		return err
	}
	raw, err := patchOf(o, gvk)
	if err != nil {
		return err
	}
	if err := client.Patch(types.StrategicMergePatchType).AbsPath(path).Body(raw).Do(ctx).Error(); err != nil {
		return fmt.Errorf("%s %s: %w", strings.ToLower(gvk.Kind), m.GetName(), err)
	}
	return nil
}

// patchOf is an object as a patch: what it gives, without its status and what only servers write.
func patchOf(o runtime.Object, gvk schema.GroupVersionKind) ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	if m, ok := content["metadata"].(map[string]any); ok {
		for _, field := range []string{"creationTimestamp", "resourceVersion", "uid", "generation", "managedFields"} {
			delete(m, field)
		}
	}
	content["apiVersion"], content["kind"] = gvk.GroupVersion().String(), gvk.Kind
	return json.Marshal(content)
}

// Done implements Change: the workloads among the objects are rolled out, and all Pods are ready.
func (a *Apply) Done(ctx context.Context, r *Run) (bool, error) {
	for _, w := range a.workloads {
		if done, err := w.settled(ctx, r); !done || err != nil {
			return false, err
		}
	}
	for _, o := range a.Objects {
		if p, ok := o.(*corev1.Pod); ok && r.pods.unready(p) {
			return false, nil
		}
	}
	return r.allReady(), nil
}

// unready tells whether a Pod of this name has not become ready or ended.
func (r *podRecorder) unready(p *corev1.Pod) bool {
	for uid, f := range r.byUID {
		if r.ended[uid] {
			continue
		}
		if f.Name == p.Name && (p.Namespace == "" || f.Namespace == p.Namespace) && f.Ready == nil && f.Gone == nil {
			return true
		}
	}
	return false
}
