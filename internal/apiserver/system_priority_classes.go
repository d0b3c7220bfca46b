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

// priorityClassResource are the ones of the scheduling group.
func priorityClassResource() schema.GroupResource { return schedulingv1.Resource("priorityclasses") }

// systemPriorityClassREST does not let the system's own PriorityClasses be deleted.
type systemPriorityClassREST struct{ rest.StandardStorage }

func protectSystemPriorityClasses(s rest.StandardStorage) rest.Storage {
	return systemPriorityClassREST{s}
}

// Delete removes a class that is not the system's.
func (k systemPriorityClassREST) Delete(ctx context.Context, name string, v rest.ValidateObjectFunc,
	o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	own := func(c schedulingv1.PriorityClass) bool { return c.Name == name }
	if slices.ContainsFunc(systemPriorityClasses(), own) {
		return nil, false, apierrors.NewForbidden(priorityClassResource(), name,
			errors.New("this is a system priority class and cannot be deleted"))
	}
	return k.StandardStorage.Delete(ctx, name, v, o)
}
