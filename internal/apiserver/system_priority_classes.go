package apiserver

import (
	"context"
	"errors"
	"slices"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
)

// priorityClassResource returns scheduling.k8s.io priorityclasses.
func priorityClassResource() schema.GroupResource { return schedulingv1.Resource("priorityclasses") }

// systemPriorityClassREST rejects deletes of the system's PriorityClasses.
type systemPriorityClassREST struct{ rest.StandardStorage }

// protectSystemPriorityClasses returns s without deletes of the system's classes.
func protectSystemPriorityClasses(s rest.StandardStorage) rest.Storage {
	return systemPriorityClassREST{s}
}

// Delete implements rest.GracefulDeleter.
func (k systemPriorityClassREST) Delete(ctx context.Context, name string, v rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	own := func(c schedulingv1.PriorityClass) bool { return c.Name == name }
	if slices.ContainsFunc(systemPriorityClasses(), own) {
		return nil, false, apierrors.NewForbidden(priorityClassResource(), name,
			errors.New("this is a system priority class and cannot be deleted"))
	}
	return k.StandardStorage.Delete(ctx, name, v, o)
}
