// Package replicaset maintains the number of Pods of a ReplicaSet, or of a ReplicationController.
//
// In: ReplicaSets, Pods. Out: creations (in growing batches, so that a refused template is not
// tried a thousand times), deletions by upstream's ranking, adoption and release, status.
package replicaset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	sets              controllerKind
	pods              cache.SharedIndexInformer
	podControl        controllerruntime.PodControl
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	informer := d.Informers.Apps().V1().ReplicaSets()
	return newController(d, "replicaset", replicaSets{d, informer.Lister()}, informer.Informer())
}

// NewReplicationController returns the controller for ReplicationControllers, which works alike.
func NewReplicationController(d controllerruntime.ControllerContext) controllerruntime.Runner {
	informer := d.Informers.Core().V1().ReplicationControllers()
	return newController(d, "replicationcontroller", replicationControllers{d, informer.Lister()}, informer.Informer())
}

func newController(d controllerruntime.ControllerContext, name string, f controllerKind,
	informer cache.SharedIndexInformer) controllerruntime.Runner {
	pods := d.Informers.Core().V1().Pods().Informer()
	c := &controller{d, f, pods, controllerruntime.PodControl{ControllerContext: d,
		Expectations: controllerruntime.NewExpectations(), Controller: name}}
	controllerruntime.IndexByController(pods)
	q := controllerruntime.NewQueue(name, 5, c.syncReplicaSet)
	q.WatchByKey(informer)
	q.Watch(pods, c.podChanged)
	return q
}

// podChanged lowers expectations and returns the sets that a Pod's change concerns; an orphan
// concerns every set that selects it.
func (c *controller) podChanged(old, cur runtime.Object) []string {
	keys := controllerruntime.OwnerKeys(c.sets.kind().Kind)(old, cur)
	c.podControl.Expectations.ObservePod(keys, old, cur)
	p, orphan := controllerruntime.Adoptable[*corev1.Pod](cur)
	if !orphan {
		return keys
	}
	return append(keys, controllerruntime.SelectingKeys(p, c.sets.list(p.Namespace),
		func(rs *appsv1.ReplicaSet) *metav1.LabelSelector { return rs.Spec.Selector })...)
}

func (c *controller) syncReplicaSet(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	rs, err := c.sets.get(ns, name)
	if apierrors.IsNotFound(err) {
		c.podControl.Expectations.DeleteExpectations(key)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil || selector.Empty() {
		return 0, nil // validation refuses such a set; an existing one claims nothing
	}
	ready := c.podControl.Expectations.SatisfiedExpectations(key, c.controllerContext.Time())
	owner := controllerruntime.Owner{Object: rs, Kind: c.sets.kind(), Selector: selector}
	pods, err := controllerruntime.Claim[*corev1.Pod](ctx, owner, c.pods, c.controllerContext.PatchPod)
	if err != nil {
		return 0, err
	}
	in := In{Set: rs, Pods: pods, Siblings: c.siblings(rs), Now: c.controllerContext.Time()}
	var failure error
	if ready {
		plan := Next(in)
		for _, ratio := range deletionAgeRatios(in, plan) {
			deletionAgeRatio.Observe(ratio)
		}
		failure = c.do(ctx, owner, plan)
	}
	status, again := Status(in, failure)
	if c.sets.kind().Kind != "ReplicaSet" {
		status.TerminatingReplicas = nil // ReplicationControllers have no such count
	}
	if err := c.writeStatus(ctx, rs, status); err != nil {
		return 0, errors.Join(failure, err)
	}
	return again, failure
}

// siblings counts, by node, the active Pods of all sets with the same owner (the revisions of one
// Deployment).
func (c *controller) siblings(rs *appsv1.ReplicaSet) map[string]int {
	out := map[string]int{}
	sets := []*appsv1.ReplicaSet{rs}
	if owner := metav1.GetControllerOf(rs); owner != nil {
		sets = nil
		for _, s := range c.sets.list(rs.Namespace) {
			if o := metav1.GetControllerOf(s); o != nil && o.UID == owner.UID {
				sets = append(sets, s)
			}
		}
	}
	for _, s := range sets {
		pods, _ := c.pods.GetIndexer().ByIndex(controllerruntime.ByControllerIndex, string(s.UID))
		for _, raw := range pods {
			if p := raw.(*corev1.Pod); len(Active([]*corev1.Pod{p})) == 1 {
				out[p.Spec.NodeName]++
			}
		}
	}
	return out
}

// surplusText says why a set deletes Pods: its number, and the labels by which it counts them.
func surplusText(rs *appsv1.ReplicaSet) string {
	return fmt.Sprintf("%s wants %d Pods with %s", rs.Name, replicas(rs),
		strings.ReplaceAll(metav1.FormatLabelSelector(rs.Spec.Selector), " ", ""))
}

func (c *controller) do(ctx context.Context, o controllerruntime.Owner, plan Plan) error {
	if plan.Create+len(plan.Delete) == 0 {
		return nil
	}
	rs := o.Object.(*appsv1.ReplicaSet)
	c.podControl.Expectations.SetExpectations(o.Key(), plan.Create, plan.Delete, c.controllerContext.Time())
	created := c.podControl.CreatePods(ctx, o, plan.Create,
		func(int) *corev1.Pod { return controllerruntime.NewPodFromTemplate(&rs.Spec.Template, o) })
	deleted := c.podControl.DeletePods(ctx, o, plan.Delete, surplusText(rs))
	return errors.Join(controllerruntime.IgnoreNamespaceTerminating(created), deleted)
}

func (c *controller) writeStatus(ctx context.Context, rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if equality.Semantic.DeepEqual(rs.Status, status) {
		return nil
	}
	rs = rs.DeepCopy()
	rs.Status = status
	return controllerruntime.IgnoreNotFound(c.sets.writeStatus(ctx, rs))
}
