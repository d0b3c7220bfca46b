// Package deployment rolls out a Pod template through ReplicaSets, one per revision.
//
// In: Deployments and the ReplicaSets they control. Out: new sets, sizes step by step within surge
// and availability, history within its limit, status with progress and its deadline.
package deployment

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/pod"
)

var kind = appsv1.SchemeGroupVersion.WithKind("Deployment")

type controller struct {
	controllerContext controllerruntime.ControllerContext
	deployments       appslisters.DeploymentLister
	sets              cache.SharedIndexInformer
	pods              cache.SharedIndexInformer
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	apps, pods := d.Informers.Apps().V1(), d.Informers.Core().V1().Pods().Informer()
	c := &controller{d, apps.Deployments().Lister(), apps.ReplicaSets().Informer(), pods}
	controllerruntime.IndexByController(c.sets)
	controllerruntime.IndexByController(pods)
	q := controllerruntime.NewQueue("deployment", 5, c.syncDeployment)
	q.WatchByKey(apps.Deployments().Informer())
	q.Watch(c.sets, c.setChanged)
	q.Watch(pods, c.podDeleted)
	return q
}

func (c *controller) setChanged(old, cur runtime.Object) []string {
	keys := controllerruntime.OwnerKeys(kind.Kind)(old, cur)
	rs, orphan := controllerruntime.Adoptable[*appsv1.ReplicaSet](cur)
	if !orphan {
		return keys
	}
	all, _ := c.deployments.Deployments(rs.Namespace).List(labels.Everything())
	return append(keys, controllerruntime.SelectingKeys(rs, all,
		func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector })...)
}

// podDeleted returns the Deployment if its strategy is Recreate: it waits for Pods of earlier
// revisions to be gone.
func (c *controller) podDeleted(old, cur runtime.Object) []string {
	p, ok := old.(*corev1.Pod)
	if !ok || cur != nil {
		return nil
	}
	owner := metav1.GetControllerOf(p)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return nil
	}
	raw, exists, _ := c.sets.GetIndexer().GetByKey(p.Namespace + "/" + owner.Name)
	if !exists {
		return nil
	}
	return controllerruntime.OwnerKeys(kind.Kind)(nil, raw.(*appsv1.ReplicaSet))
}

func (c *controller) syncDeployment(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	d, err := c.deployments.Deployments(ns).Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil || selector.Empty() {
		return 0, nil
	}
	owner := controllerruntime.Owner{Object: d, Kind: kind, Selector: selector}
	sets, err := controllerruntime.Claim[*appsv1.ReplicaSet](ctx, owner, c.sets, c.patchSet)
	if err != nil {
		return 0, err
	}
	in := In{Deployment: d, Sets: sets, Now: c.controllerContext.Time()}
	cur, old := FindReplicaSets(in)
	in.OldPods = c.hasPods(old)
	created, failure := c.do(ctx, in, Next(in))
	revision := ""
	switch {
	case created != nil:
		revision = created.Annotations[revisionKey]
	case failure == nil && cur != nil && d.DeletionTimestamp == nil:
		revision = strconv.FormatInt(NextRevision(cur, old), 10)
		failure = c.recordRevision(ctx, d, cur, revision)
	}
	name = ""
	if created != nil {
		in.Sets, name = append(in.Sets, created), created.Name
	}
	status, again := Status(in, name, failure)
	return again, errors.Join(failure, c.writeStatus(ctx, d, status, revision))
}

func (c *controller) patchSet(ctx context.Context, namespace, name string, patch []byte) error {
	_, err := c.controllerContext.Client.AppsV1().ReplicaSets(namespace).Patch(ctx, name, types.StrategicMergePatchType,
		patch, metav1.PatchOptions{})
	return err
}

// hasPods reports whether Pods of these sets exist.
func (c *controller) hasPods(sets []*appsv1.ReplicaSet) bool {
	for _, rs := range sets {
		pods, _ := c.pods.GetIndexer().ByIndex(controllerruntime.ByControllerIndex, string(rs.UID))
		for _, raw := range pods {
			if p := raw.(*corev1.Pod); !pod.IsTerminal(p) {
				return true
			}
		}
	}
	return false
}

// do carries out the plan and returns the created set, if any.
func (c *controller) do(ctx context.Context, in In, p Plan) (*appsv1.ReplicaSet, error) {
	d := in.Deployment
	if p.Create {
		return c.create(ctx, in, p.Size)
	}
	for _, s := range p.Scale {
		if err := c.scale(ctx, d, s); err != nil {
			return nil, err
		}
	}
	for _, rs := range p.Annotate {
		if !inScale(p.Scale, rs) {
			if err := c.write(ctx, d, rs, size(rs)); err != nil {
				return nil, err
			}
		}
	}
	for _, rs := range p.Delete {
		err := c.controllerContext.Client.AppsV1().ReplicaSets(rs.Namespace).Delete(ctx, rs.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(rs.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return nil, nil
}

func inScale(steps []Scale, rs *appsv1.ReplicaSet) bool {
	for _, s := range steps {
		if s.Set == rs {
			return true
		}
	}
	return false
}

func (c *controller) create(ctx context.Context, in In, n int32) (*appsv1.ReplicaSet, error) {
	d := in.Deployment
	_, old := FindReplicaSets(in)
	hash := PodTemplateHash(&d.Spec.Template, d.Status.CollisionCount)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.Name + "-" + hash, Namespace: d.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &n, MinReadySeconds: d.Spec.MinReadySeconds,
			Selector: metav1.CloneSelectorAndAddLabel(d.Spec.Selector, appsv1.DefaultDeploymentUniqueLabelKey, hash),
			Template: *d.Spec.Template.DeepCopy(),
		},
	}
	metav1.SetMetaDataLabel(&rs.Spec.Template.ObjectMeta, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	rs.Labels = rs.Spec.Template.Labels
	revision := strconv.FormatInt(NextRevision(nil, old), 10)
	rs.Annotations = annotations(d, nil, revision)
	created, err := c.controllerContext.Client.AppsV1().ReplicaSets(d.Namespace).Create(ctx, rs, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, c.handleHashCollision(ctx, d, rs.Name)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, nil
	case err != nil:
		c.controllerContext.Recorder.Eventf(d, corev1.EventTypeWarning, "ReplicaSetCreateError",
			"Failed to create new replica set %q: %v", rs.Name, err)
		return nil, fmt.Errorf("creating ReplicaSet %s: %w", rs.Name, err)
	}
	if n > 0 {
		c.controllerContext.Recorder.Eventf(d, corev1.EventTypeNormal, "ScalingReplicaSet",
			"Scaled up replica set %s from 0 to %d", created.Name, n)
	}
	return created, nil
}

// handleHashCollision distinguishes a set that is ours already (the cache is behind) from one of
// another template with the same hash, for which it raises the count.
func (c *controller) handleHashCollision(ctx context.Context, d *appsv1.Deployment, name string) error {
	there, err := c.controllerContext.Client.AppsV1().ReplicaSets(d.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if owner := metav1.GetControllerOf(there); owner != nil && owner.UID == d.UID && sameTemplate(&d.Spec.Template,
		&there.Spec.Template) {
		return nil
	}
	d = d.DeepCopy()
	next := int32(1)
	if d.Status.CollisionCount != nil {
		next = *d.Status.CollisionCount + 1
	}
	d.Status.CollisionCount = &next
	_, err = c.controllerContext.Client.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{})
	return err
}

// annotations returns the Deployment's annotations for its ReplicaSet, without those that concern
// only the Deployment, and with the controller's own.
func annotations(d *appsv1.Deployment, have map[string]string, revision string) map[string]string {
	out := map[string]string{}
	for k, v := range have {
		out[k] = v
	}
	for k, v := range d.Annotations {
		if k != corev1.LastAppliedConfigAnnotation && k != revisionKey {
			out[k] = v
		}
	}
	surge, _ := Limits(d)
	out[desiredKey] = strconv.Itoa(int(replicasOf(d)))
	out[maxKey] = strconv.Itoa(int(replicasOf(d) + surge))
	if revision != "" {
		out[revisionKey] = revision
	}
	return out
}

func (c *controller) scale(ctx context.Context, d *appsv1.Deployment, s Scale) error {
	from := size(s.Set)
	if err := c.write(ctx, d, s.Set, s.To); err != nil {
		return err
	}
	way := "up"
	if s.To < from {
		way = "down"
	}
	c.controllerContext.Recorder.Eventf(d, corev1.EventTypeNormal, "ScalingReplicaSet",
		"Scaled %s replica set %s from %d to %d", way, s.Set.Name, from, s.To)
	return nil
}

func (c *controller) write(ctx context.Context, d *appsv1.Deployment, rs *appsv1.ReplicaSet, n int32) error {
	rs = rs.DeepCopy()
	rs.Spec.Replicas = &n
	rs.Annotations = annotations(d, rs.Annotations, "")
	_, err := c.controllerContext.Client.AppsV1().ReplicaSets(rs.Namespace).Update(ctx, rs, metav1.UpdateOptions{})
	return err
}

// recordRevision gives the current set the highest revision, so that a rollback counts as a new
// one.
func (c *controller) recordRevision(ctx context.Context, d *appsv1.Deployment, cur *appsv1.ReplicaSet,
	revision string) error {
	if cur.Annotations[revisionKey] != revision || cur.Spec.MinReadySeconds != d.Spec.MinReadySeconds {
		rs, err := c.controllerContext.Client.AppsV1().ReplicaSets(cur.Namespace).Get(ctx, cur.Name,
			metav1.GetOptions{})
		if err != nil {
			return err
		}
		rs.Annotations = annotations(d, rs.Annotations, revision)
		rs.Spec.MinReadySeconds = d.Spec.MinReadySeconds
		if _, err := c.controllerContext.Client.AppsV1().ReplicaSets(rs.Namespace).Update(ctx, rs,
			metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// writeStatus writes the status and, with it, the revision annotation: the status subresource does
// not change the generation.
func (c *controller) writeStatus(ctx context.Context, d *appsv1.Deployment, s appsv1.DeploymentStatus,
	revision string) error {
	if equality.Semantic.DeepEqual(d.Status, s) && (revision == "" || d.Annotations[revisionKey] == revision) {
		return nil
	}
	fresh, err := c.controllerContext.Client.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if fresh.UID != d.UID || !equality.Semantic.DeepEqual(fresh.Status, d.Status) {
		return nil // another Deployment; or the cache is behind, and the next event causes another sync
	}
	fresh.Status = s
	if revision != "" {
		metav1.SetMetaDataAnnotation(&fresh.ObjectMeta, revisionKey, revision)
	}
	_, err = c.controllerContext.Client.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, fresh,
		metav1.UpdateOptions{})
	return err
}
