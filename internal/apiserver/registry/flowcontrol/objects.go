package flowcontrol

import (
	"context"
	"fmt"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	client "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
)

// Ensure makes the schemas and levels every cluster has. One whose annotation
// apf.kubernetes.io/autoupdate-spec is not "true" stays as an administrator left it.
func Ensure(ctx context.Context, c client.FlowcontrolV1Interface) error {
	for _, l := range slices.Concat(bootstrap.MandatoryPriorityLevelConfigurations,
		bootstrap.SuggestedPriorityLevelConfigurations) {
		if err := ensureLevel(ctx, c.PriorityLevelConfigurations(), hasAutoUpdate(l.DeepCopy())); err != nil {
			return fmt.Errorf("priority level %s: %w", l.Name, err)
		}
	}
	for _, s := range slices.Concat(bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas) {
		if err := ensureSchema(ctx, c.FlowSchemas(), hasAutoUpdate(s.DeepCopy())); err != nil {
			return fmt.Errorf("flow schema %s: %w", s.Name, err)
		}
	}
	return nil
}

// hasAutoUpdate says that an object is ours to keep up to date.
func hasAutoUpdate[T metav1.Object](o T) T {
	a := o.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	a[flowcontrolv1.AutoUpdateAnnotationKey] = "true"
	o.SetAnnotations(a)
	return o
}

func managedByAPIServer(o metav1.Object) bool {
	return o.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey] == "true"
}

func ensureLevel(ctx context.Context, c client.PriorityLevelConfigurationInterface,
	want *flowcontrolv1.PriorityLevelConfiguration) error {
	have, err := c.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = c.Create(ctx, want, metav1.CreateOptions{})
	case err == nil && managedByAPIServer(have) && !apiequality.Semantic.DeepEqual(have.Spec, want.Spec):
		have.Spec = want.Spec
		_, err = c.Update(ctx, have, metav1.UpdateOptions{})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil // another server was faster
	}
	return err
}

func ensureSchema(ctx context.Context, c client.FlowSchemaInterface, want *flowcontrolv1.FlowSchema) error {
	have, err := c.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = c.Create(ctx, want, metav1.CreateOptions{})
	case err == nil && managedByAPIServer(have) && !apiequality.Semantic.DeepEqual(have.Spec, want.Spec):
		have.Spec = want.Spec
		_, err = c.Update(ctx, have, metav1.UpdateOptions{})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
