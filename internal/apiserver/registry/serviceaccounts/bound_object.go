package serviceaccounts

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/auth/token"
)

// bindToObject looks up the object a token is to be bound to and puts it into the request.
func (t *TokenREST) bindToObject(ctx context.Context, ref *authenticationv1.BoundObjectReference,
	w *token.TokenRequest) error {
	if ref == nil {
		return nil
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	var uid types.UID
	switch gvk.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		if err := t.bindToPod(ctx, ref, w); err != nil {
			return err
		}
		uid = w.Pod.UID
	case schema.GroupKind{Kind: "Secret"}:
		o, err := t.get(ctx, "secrets", ref.Name,
			func(o runtime.Object) bool { return ref.UID == o.(*corev1.Secret).UID })
		if err != nil {
			return err
		}
		w.Secret = o.(*corev1.Secret)
		uid = w.Secret.UID
	case schema.GroupKind{Kind: "Node"}:
		o, err := t.get(ctx, "nodes", ref.Name, func(o runtime.Object) bool { return ref.UID == o.(*corev1.Node).UID })
		if err != nil {
			return err
		}
		w.Node = o.(*corev1.Node)
		uid = w.Node.UID
	default:
		gate := ""
		if isWebhook(ref) {
			gate = " (feature gate APIServerWebhookAuthenticationToken is disabled)"
		}
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s%s", gvk, gate))
	}
	if ref.UID != "" && ref.UID != uid {
		return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object "+
				"might have been deleted and then recreated", ref.UID))
	}
	return nil
}

func (t *TokenREST) bindToPod(ctx context.Context, ref *authenticationv1.BoundObjectReference,
	w *token.TokenRequest) error {
	o, err := t.get(ctx, "pods", ref.Name, func(o runtime.Object) bool {
		p := o.(*corev1.Pod)
		return p.Spec.NodeName != "" && (ref.UID == "" || ref.UID == p.UID)
	})
	if err != nil {
		return err
	}
	w.Pod = o.(*corev1.Pod)
	if w.Pod.Spec.ServiceAccountName != w.Account.Name {
		return apierrors.NewBadRequest(
			fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.",
				w.Account.Name))
	}
	if w.Pod.Spec.NodeName == "" {
		return nil
	}
	// The node informs who reads the token; a Pod may outlive its Node object.
	switch n, err := t.get(ctx, "nodes", w.Pod.Spec.NodeName, nil); {
	case apierrors.IsNotFound(err):
		w.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.Pod.Spec.NodeName}}
	case err != nil:
		return apierrors.NewInternalError(err)
	default:
		w.Node = n.(*corev1.Node)
	}
	return nil
}

// get reads an object under its own name in errors, as recent does.
func (t *TokenREST) get(ctx context.Context, resource, name string,
	good func(runtime.Object) bool) (runtime.Object, error) {
	namespace := request.NamespaceValue(ctx)
	if resource == "nodes" {
		namespace = ""
	}
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: "get", APIVersion: "v1", Namespace: namespace, Resource: resource, Name: name,
	})
	return deletedRecently(request.WithNamespace(ctx, namespace), t.deps.Lookup("", resource), name, good)
}

// deletedRecently reads an object from the watch cache, and from the store when the cache does not
// have it or has one that is not good (nil: each is). A read of the store waits for the writes
// before it to be on disk. A token for an object that is just being deleted does no harm: each use
// of it looks for the object again.
func deletedRecently(ctx context.Context, s rest.Getter, name string,
	good func(runtime.Object) bool) (runtime.Object, error) {
	o, err := s.Get(ctx, name, &metav1.GetOptions{ResourceVersion: "0"})
	if err == nil && (good == nil || good(o)) {
		return o, nil
	}
	return s.Get(ctx, name, &metav1.GetOptions{})
}
