// Package namespace deletes the content of terminating namespaces and then their finalizer.
//
// In: a namespace with a deletion timestamp and the content of every namespaced resource. Out:
// deletions, Pods first; conditions that say what is left and which finalizers hold it; finally the
// removal of the kubernetes finalizer.
package namespace

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// contentRemainingRequeue is the time between syncs while finalizers hold content.
const contentRemainingRequeue = 2 * time.Second

type controller struct {
	controllerContext controllerruntime.ControllerContext
	lister            corelisters.NamespaceLister
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	namespaces := d.Informers.Core().V1().Namespaces()
	c := &controller{d, namespaces.Lister()}
	q := controllerruntime.NewQueue("namespace", 4, c.syncNamespaceFromKey)
	q.WatchByKey(namespaces.Informer())
	return q
}

func (c *controller) syncNamespaceFromKey(ctx context.Context, key string) (time.Duration, error) {
	ns, err := c.lister.Get(key)
	if apierrors.IsNotFound(err) ||
		err == nil && (ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers,
			corev1.FinalizerKubernetes)) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	found := c.deleteAllContent(ctx, key)
	if err := c.updateConditions(ctx, key, found); err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	if found.Remains() {
		return contentRemainingRequeue, nil
	}
	return 0, controllerruntime.IgnoreNotFound(c.finalize(ctx, key))
}

// deleteAllContent deletes the content and returns what is left.
func (c *controller) deleteAllContent(ctx context.Context, ns string) RemainingContent {
	resources, err := c.resources()
	found := RemainingContent{Discovery: err}
	pods := slices.IndexFunc(resources,
		func(r schema.GroupVersionResource) bool { return r.Group == "" && r.Resource == "pods" })
	if pods >= 0 {
		found.Contents = append(found.Contents, c.deleteResourceContent(ctx, ns, resources[pods]))
		if found.PodsRemain() {
			return found
		}
		resources = slices.Delete(resources, pods, pods+1)
	}
	for _, r := range resources {
		found.Contents = append(found.Contents, c.deleteResourceContent(ctx, ns, r))
	}
	return found
}

// resources returns every namespaced resource that can be listed and deleted.
func (c *controller) resources() ([]schema.GroupVersionResource, error) {
	lists, err := c.controllerContext.Client.Discovery().ServerPreferredNamespacedResources()
	var out []schema.GroupVersionResource
	for _, l := range lists {
		gv, parseErr := schema.ParseGroupVersion(l.GroupVersion)
		if parseErr != nil {
			return nil, parseErr
		}
		for _, r := range l.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out, err
}

func (c *controller) deleteResourceContent(ctx context.Context, ns string, r schema.GroupVersionResource) Content {
	out := Content{Resource: r, Finalizers: map[string]int{}}
	client := c.controllerContext.Metadata.Resource(r).Namespace(ns)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		out.Err = ignoreNotServed(err)
		return out
	}
	if len(list.Items) == 0 {
		return out
	}
	background := metav1.DeletePropagationBackground
	if slices.ContainsFunc(list.Items,
		func(o metav1.PartialObjectMetadata) bool { return o.DeletionTimestamp == nil }) {
		err := client.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
		if apierrors.IsMethodNotSupported(err) {
			err = c.deleteEach(ctx, ns, r, list.Items)
		}
		if err != nil {
			out.Err = err
		}
		if list, err = client.List(ctx, metav1.ListOptions{}); err != nil {
			out.Err = err
			return out
		}
	}
	out.Remaining = len(list.Items)
	for _, o := range list.Items {
		for _, f := range o.Finalizers {
			out.Finalizers[f]++
		}
	}
	return out
}

func (c *controller) deleteEach(ctx context.Context, ns string, r schema.GroupVersionResource,
	items []metav1.PartialObjectMetadata) error {
	background := metav1.DeletePropagationBackground
	for _, o := range items {
		if err := c.controllerContext.Metadata.Resource(r).Namespace(ns).Delete(ctx, o.Name,
			metav1.DeleteOptions{PropagationPolicy: &background}); controllerruntime.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// ignoreNotServed returns nil if a discovered resource is no longer served, or cannot be listed.
func ignoreNotServed(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil
	}
	return err
}

func (c *controller) updateConditions(ctx context.Context, name string, found RemainingContent) error {
	namespaces := c.controllerContext.Client.CoreV1().Namespaces()
	ns, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	merged, changed := Merge(ns.Status.Conditions, Conditions(found), metav1.Now())
	if !changed {
		return nil
	}
	ns.Status.Conditions = merged
	_, err = namespaces.UpdateStatus(ctx, ns, metav1.UpdateOptions{})
	return err
}

func (c *controller) finalize(ctx context.Context, name string) error {
	namespaces := c.controllerContext.Client.CoreV1().Namespaces()
	ns, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers,
		func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	_, err = namespaces.Finalize(ctx, ns, metav1.UpdateOptions{})
	return err
}
