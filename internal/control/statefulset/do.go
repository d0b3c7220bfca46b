// Package statefulset runs Pods with stable names: db-0, db-1, …, each with its claims, started,
// stopped and replaced in order.
//
// In: StatefulSets, their Pods, claims and revisions. Out: Pods and claims by ordinal,
// ControllerRevisions, status. There are never two Pods of one name: an ordinal is recreated only
// when the API object of its last Pod is gone.
package statefulset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/control/controllerrevision"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

var kind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

var errTerminating = errors.New("the claim of the last Pod is still being deleted")

type controller struct {
	controllerContext controllerruntime.ControllerContext
	sets              appslisters.StatefulSetLister
	pods              cache.SharedIndexInformer
	revisions         cache.SharedIndexInformer
	claims            corelisters.PersistentVolumeClaimLister
	expectations      *controllerruntime.Expectations
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	apps, core := d.Informers.Apps().V1(), d.Informers.Core().V1()
	c := &controller{
		controllerContext: d, sets: apps.StatefulSets().Lister(), pods: core.Pods().Informer(),
		revisions: apps.ControllerRevisions().Informer(),
		claims:    core.PersistentVolumeClaims().Lister(), expectations: controllerruntime.NewExpectations(),
	}
	controllerruntime.IndexByController(c.pods)
	controllerruntime.IndexByController(c.revisions)
	q := controllerruntime.NewQueue("statefulset", 5, c.syncStatefulSet)
	q.WatchByKey(apps.StatefulSets().Informer())
	q.Watch(c.pods, c.podChanged)
	q.WaitForInformers(c.revisions, core.PersistentVolumeClaims().Informer())
	return q
}

func (c *controller) podChanged(old, cur runtime.Object) []string {
	keys := controllerruntime.OwnerKeys(kind.Kind)(old, cur)
	c.expectations.ObservePod(keys, old, cur)
	p, orphan := controllerruntime.Adoptable[*corev1.Pod](cur)
	if !orphan {
		return keys
	}
	sets, _ := c.sets.StatefulSets(p.Namespace).List(labels.Everything())
	sets = slices.DeleteFunc(sets, func(s *appsv1.StatefulSet) bool { return Ordinal(s, p) < 0 })
	return append(keys, controllerruntime.SelectingKeys(p, sets,
		func(s *appsv1.StatefulSet) *metav1.LabelSelector { return s.Spec.Selector })...)
}

func (c *controller) syncStatefulSet(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	set, err := c.sets.StatefulSets(ns).Get(name)
	if apierrors.IsNotFound(err) {
		c.expectations.DeleteExpectations(key)
		forget(ns, name)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || selector.Empty() {
		return 0, nil
	}
	ready := c.expectations.SatisfiedExpectations(key, c.controllerContext.Time())
	owner := controllerruntime.Owner{Object: set, Kind: kind, Selector: selector}
	pods, err := c.claimPods(ctx, owner, set)
	if err != nil {
		return 0, err
	}
	have, err := controllerruntime.Claim[*appsv1.ControllerRevision](ctx, owner, c.revisions,
		c.controllerContext.PatchRevision)
	if err != nil {
		return 0, err
	}
	collisions := ptr.Deref(set.Status.CollisionCount, 0)
	update, err := controllerrevision.Ensure(ctx, c.controllerContext.Client.AppsV1().ControllerRevisions(ns),
		controllerrevision.Owner{Object: set, Kind: kind, Template: &set.Spec.Template, Collisions: collisions}, have)
	if collision := (controllerrevision.Collision{}); errors.As(err, &collision) {
		status := *set.Status.DeepCopy()
		collisions++
		status.CollisionCount = &collisions
		return 0, c.writeStatus(ctx, set, status)
	}
	if err != nil {
		return 0, err
	}
	current := update
	for _, r := range have {
		if r.Name == set.Status.CurrentRevision {
			current = r
		}
	}
	in := In{Set: set, Pods: pods, Current: current.Name, Update: update.Name, Now: c.controllerContext.Time()}
	recordMetrics(in)
	status, again := Status(in, collisions)
	err = c.writeStatus(ctx, set, status)
	if err == nil && ready {
		err = c.do(ctx, in, map[string]*appsv1.ControllerRevision{current.Name: current, update.Name: update})
	}
	return again, errors.Join(err, c.truncateHistory(ctx, in, have))
}

// claimPods claims Pods with names of the set; others that its selector matches are left alone.
func (c *controller) claimPods(ctx context.Context, o controllerruntime.Owner,
	set *appsv1.StatefulSet) ([]*corev1.Pod, error) {
	patch := func(ctx context.Context, namespace, name string, body []byte) error {
		if Ordinal(set, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}) < 0 {
			return apierrors.NewNotFound(corev1.Resource("pods"), name)
		}
		return c.controllerContext.PatchPod(ctx, namespace, name, body)
	}
	return controllerruntime.Claim[*corev1.Pod](ctx, o, c.pods, patch)
}

// do carries out the plan.
func (c *controller) do(ctx context.Context, in In, revisions map[string]*appsv1.ControllerRevision) error {
	plan := Next(in)
	for _, p := range plan.UpdateIdentity {
		if err := c.updatePod(ctx, in.Set, p); err != nil {
			return err
		}
	}
	var errs []error
	deleted := append(append(append([]*corev1.Pod{}, plan.Recreate...), plan.ReleaseClaims...), plan.Replace...)
	c.expectations.SetExpectations(in.Set.Namespace+"/"+in.Set.Name, len(plan.Create), deleted,
		c.controllerContext.Time())
	for _, s := range plan.Create {
		errs = append(errs, c.create(ctx, in.Set, revisions[s.Revision], s))
	}
	for _, p := range plan.Recreate {
		reason, how := "RecreatingFailedPod", "failed"
		if p.Status.Phase == corev1.PodSucceeded {
			reason, how = "RecreatingTerminatedPod", "terminated"
		}
		c.controllerContext.Recorder.Eventf(in.Set, corev1.EventTypeWarning, reason,
			"StatefulSet %s/%s is recreating %s Pod %s", in.Set.Namespace, in.Set.Name, how, p.Name)
	}
	for _, p := range plan.ReleaseClaims {
		if err := c.updateClaimOwners(ctx, in.Set, p, true); err != nil {
			c.expectations.DeleteExpectations(in.Set.Namespace + "/" + in.Set.Name)
			return errors.Join(append(errs, err)...)
		}
	}
	for _, p := range deleted {
		errs = append(errs, c.delete(ctx, in.Set, p))
	}
	return errors.Join(errs...)
}

func (c *controller) create(ctx context.Context, set *appsv1.StatefulSet, revision *appsv1.ControllerRevision,
	s Replica) error {
	template, err := controllerrevision.Template(revision)
	var p *corev1.Pod
	if err == nil {
		p = Pod(set, template, s)
		if err = c.createClaims(ctx, set, s.Ordinal, p.Name); err == nil {
			_, err = c.controllerContext.Client.CoreV1().Pods(set.Namespace).Create(ctx, p, metav1.CreateOptions{})
		}
	}
	if err == nil {
		c.controllerContext.Recorder.Eventf(set, corev1.EventTypeNormal, "SuccessfulCreate",
			"Create Pod %s in StatefulSet %s successful", p.Name, set.Name)
		return nil
	}
	c.expectations.CreationObserved(set.Namespace+"/"+set.Name, 1)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if p != nil && !apierrors.IsAlreadyExists(err) {
		c.controllerContext.Recorder.Eventf(set, corev1.EventTypeWarning, "FailedCreate",
			"Create Pod %s in StatefulSet %s failed error: %s", p.Name, set.Name, err)
	}
	return fmt.Errorf("creating Pod %d of %s: %w", s.Ordinal, set.Name, err)
}

func (c *controller) delete(ctx context.Context, set *appsv1.StatefulSet, p *corev1.Pod) error {
	err := c.controllerContext.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	if err == nil {
		c.controllerContext.Recorder.Eventf(set, corev1.EventTypeNormal, "SuccessfulDelete",
			"Delete Pod %s in StatefulSet %s successful", p.Name, set.Name)
		return nil
	}
	c.expectations.DeletionObserved(set.Namespace+"/"+set.Name, string(p.UID))
	if apierrors.IsNotFound(err) {
		return nil
	}
	c.controllerContext.Recorder.Eventf(set, corev1.EventTypeWarning, "FailedDelete",
		"Delete Pod %s in StatefulSet %s failed error: %s", p.Name, set.Name, err)
	return err
}

// truncateHistory deletes revisions beyond the limit that no Pod and no status uses.
func (c *controller) truncateHistory(ctx context.Context, in In, have []*appsv1.ControllerRevision) error {
	inUse := map[string]bool{in.Current: true, in.Update: true}
	for _, p := range in.Pods {
		inUse[Revision(p)] = true
	}
	return controllerrevision.Truncate(ctx, c.controllerContext.Client.AppsV1().ControllerRevisions(in.Set.Namespace),
		controllerrevision.Retention{Revisions: have, InUse: inUse, HistoryLimit: in.Set.Spec.RevisionHistoryLimit})
}

func (c *controller) writeStatus(ctx context.Context, set *appsv1.StatefulSet, s appsv1.StatefulSetStatus) error {
	if equality.Semantic.DeepEqual(set.Status, s) {
		return nil
	}
	set = set.DeepCopy()
	set.Status = s
	_, err := c.controllerContext.Client.AppsV1().StatefulSets(set.Namespace).UpdateStatus(ctx, set,
		metav1.UpdateOptions{})
	return controllerruntime.IgnoreNotFound(err)
}
