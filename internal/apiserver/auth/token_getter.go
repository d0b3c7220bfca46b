package auth

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// tokenGetter reads the objects that tokens are bound to from the stores, not from caches: a token
// of a Pod that was just deleted is invalid.
type tokenGetter struct {
	lookup func(group, resource string) rest.StandardStorage
}

// get reads an object; NotFound if its resource is not served.
func (o tokenGetter) get(ctx context.Context, resource, namespace, name string) (runtime.Object, error) {
	store := o.lookup("", resource)
	if store == nil {
		return nil, apierrors.NewNotFound(corev1.Resource(resource), name)
	}
	return store.Get(request.WithNamespace(ctx, namespace), name, &metav1.GetOptions{})
}

// getTyped converts what get returns to one Go type.
func getTyped[T runtime.Object](obj runtime.Object, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	t, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("unexpected type %T", obj)
	}
	return t, nil
}

// ServiceAccount implements token.TokenGetter.
func (o tokenGetter) ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return getTyped[*corev1.ServiceAccount](o.get(ctx, "serviceaccounts", namespace, name))
}

// Pod implements token.TokenGetter.
func (o tokenGetter) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return getTyped[*corev1.Pod](o.get(ctx, "pods", namespace, name))
}

// Secret implements token.TokenGetter.
func (o tokenGetter) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return getTyped[*corev1.Secret](o.get(ctx, "secrets", namespace, name))
}

// Node implements token.TokenGetter.
func (o tokenGetter) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return getTyped[*corev1.Node](o.get(ctx, "nodes", "", name))
}
