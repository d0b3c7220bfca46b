// Package replicaset keeps the wanted number of Pods of a ReplicaSet, or of a ReplicationController.
//
// Chapter 1, written: most Pods are written by it. In: ReplicaSets, Pods. Out: creations (slowly at first, so that a template that is refused is not
// tried a thousand times), deletions by upstream's ranking, adoption and release, status.
package replicaset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/loop"
)

type controller struct {
	deps  loop.Deps
	sets  flavour
	pods  cache.SharedIndexInformer
	hands loop.Hands
}

// New makes the controller.
func New(d loop.Deps) loop.Runner {
	informer := d.Informers.Apps().V1().ReplicaSets()
	return assemble(d, "replicaset", sets{d, informer.Lister()}, informer.Informer())
}

// NewReplicationController makes the controller of the older kind, which works alike.
func NewReplicationController(d loop.Deps) loop.Runner {
	informer := d.Informers.Core().V1().ReplicationControllers()
	return assemble(d, "replicationcontroller", replicationControllers{d, informer.Lister()}, informer.Informer())
}

func assemble(d loop.Deps, name string, f flavour, informer cache.SharedIndexInformer) loop.Runner {
	pods := d.Informers.Core().V1().Pods().Informer()
	c := &controller{d, f, pods, loop.Hands{Deps: d, Expect: loop.NewExpectations(), Controller: name}}
	loop.IndexByController(pods)
	q := loop.NewQueue(name, 5, c.sync)
	q.WatchSelf(informer)
	q.Watch(pods, c.podChanged)
	return q
}

// podChanged notes what was expected and names the sets that a Pod's change concerns; an orphan concerns every set that selects it.
func (c *controller) podChanged(old, cur runtime.Object) []string {
	keys := loop.OwnerKeys(c.sets.kind().Kind)(old, cur)
	c.hands.Expect.Note(keys, old, cur)
	p, orphan := loop.Adoptable[*corev1.Pod](cur)
	if !orphan {
		return keys
	}
	for _, rs := range c.sets.list(p.Namespace) {
		if loop.Selects(rs.Spec.Selector, p.Labels) {
			keys = append(keys, rs.Namespace+"/"+rs.Name)
		}
	}
	return keys
}

func (c *controller) sync(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	rs, err := c.sets.get(ns, name)
	if apierrors.IsNotFound(err) {
		c.hands.Expect.Forget(key)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil || selector.Empty() {
		return 0, nil // validation lets no such set in; one that is there claims nothing
	}
	ready := c.hands.Expect.Satisfied(key, time.Now())
	owner := loop.Owner{Object: rs, Kind: c.sets.kind(), Selector: selector}
	pods, err := loop.Claim[*corev1.Pod](ctx, owner, c.pods, c.deps.PatchPod)
	if err != nil {
		return 0, err
	}
	in := In{Set: rs, Pods: pods, Siblings: c.siblings(rs), Now: time.Now()}
	var failure error
	if ready {
		failure = c.do(ctx, owner, Next(in))
	}
	status, again := Status(in, failure)
	if c.sets.kind().Kind != "ReplicaSet" {
		status.TerminatingReplicas = nil // the older kind has no such count
	}
	if err := c.writeStatus(ctx, rs, status); err != nil {
		return 0, errors.Join(failure, err)
	}
	return again, failure
}

// siblings counts, per node, the active Pods of all sets with the same owner (the revisions of one Deployment).
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
		pods, _ := c.pods.GetIndexer().ByIndex(loop.ByController, string(s.UID))
		for _, raw := range pods {
			if p := raw.(*corev1.Pod); len(Active([]*corev1.Pod{p})) == 1 {
				out[p.Spec.NodeName]++
			}
		}
	}
	return out
}

func (c *controller) do(ctx context.Context, o loop.Owner, plan Plan) error {
	if plan.Create+len(plan.Delete) == 0 {
		return nil
	}
	rs := o.Object.(*appsv1.ReplicaSet)
	c.hands.Expect.Expect(o.Key(), plan.Create, plan.Delete, time.Now())
	created := c.hands.Create(ctx, o, plan.Create, func(int) *corev1.Pod { return loop.PodFromTemplate(&rs.Spec.Template, o) })
	deleted := c.hands.Delete(ctx, o, plan.Delete, fmt.Sprintf("%s wants %d Pods", rs.Name, replicas(rs)))
	return errors.Join(loop.IgnoreEnding(created), deleted)
}

func (c *controller) writeStatus(ctx context.Context, rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if equality.Semantic.DeepEqual(rs.Status, status) {
		return nil
	}
	rs = rs.DeepCopy()
	rs.Status = status
	return loop.IgnoreGone(c.sets.writeStatus(ctx, rs))
}
