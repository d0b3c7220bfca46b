package apiserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// legacyBindingREST serves POST of a Binding to a namespace, the older form of pods/binding; the
// Binding has the Pod's name.
type legacyBindingREST struct{ pods rest.NamedCreater }

var (
	_ rest.Creater              = legacyBindingREST{}
	_ rest.Scoper               = legacyBindingREST{}
	_ rest.SingularNameProvider = legacyBindingREST{}
)

func (legacyBindingREST) New() runtime.Object     { return &corev1.Binding{} }
func (legacyBindingREST) Destroy()                {}
func (legacyBindingREST) NamespaceScoped() bool   { return true }
func (legacyBindingREST) GetSingularName() string { return "binding" }

// Create implements rest.Creater.
func (b legacyBindingREST) Create(ctx context.Context, obj runtime.Object, v rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (runtime.Object, error) {
	in, ok := obj.(*corev1.Binding)
	if !ok {
		return nil, apierrors.NewBadRequest("not a Binding object")
	}
	return b.pods.Create(ctx, in.Name, obj, v, o)
}
