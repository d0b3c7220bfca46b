// Package replicaset keeps the wanted number of Pods of a ReplicaSet, or of a ReplicationController.
//
// Chapter 1, written: most Pods are written by it. In: ReplicaSets, Pods. Out: creations (slowly at first, so that a template that is refused is not
// tried a thousand times), deletions by upstream's ranking, adoption and release, status.
package replicaset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/loop"
	"github.com/gantry-project/gantry/internal/journal"
)

type controller struct {
	deps   loop.Deps
	sets   flavour
	name   string // in the journal
	pods   cache.SharedIndexInformer
	expect *loop.Expectations
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
	c := &controller{d, f, name, pods, loop.NewExpectations()}
	loop.IndexByController(pods)
	q := loop.NewQueue(name, 5, c.sync)
	q.WatchSelf(informer)
	q.Watch(pods, c.podChanged)
	return q
}

// podChanged notes what was expected and names the sets that a Pod's change concerns; an orphan concerns every set that selects it.
func (c *controller) podChanged(old, cur runtime.Object) []string {
	keys := loop.OwnerKeys(c.sets.kind().Kind)(old, cur)
	c.expect.Note(keys, old, cur)
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
		c.expect.Forget(key)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil || selector.Empty() {
		return 0, nil // validation lets no such set in; one that is there claims nothing
	}
	ready := c.expect.Satisfied(key, time.Now())
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
	if plan.Create > 0 {
		return c.create(ctx, o, plan.Create)
	}
	if len(plan.Delete) > 0 {
		return c.delete(ctx, o, plan.Delete)
	}
	return nil
}

// create makes n Pods in batches of 1, 2, 4, …: a template that the API server refuses fails once, not n times.
func (c *controller) create(ctx context.Context, o loop.Owner, n int) error {
	key := o.Key()
	rs := o.Object.(*appsv1.ReplicaSet)
	c.expect.Expect(key, n, nil, time.Now())
	for batch := 1; n > 0; batch *= 2 {
		size := min(batch, n)
		errs := make([]error, size)
		var wg sync.WaitGroup
		for i := range size {
			wg.Go(func() { errs[i] = c.createOne(ctx, o, rs) })
		}
		wg.Wait()
		n -= size
		if err := errors.Join(errs...); err != nil {
			for _, e := range errs {
				if e != nil {
					c.expect.Created(key, 1)
				}
			}
			c.expect.Created(key, n)
			if apierrors.HasStatusCause(errs[0], corev1.NamespaceTerminatingCause) {
				return nil
			}
			return firstOf(errs)
		}
	}
	return nil
}

func firstOf(errs []error) error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

func (c *controller) createOne(ctx context.Context, o loop.Owner, rs *appsv1.ReplicaSet) error {
	made, err := c.deps.Client.CoreV1().Pods(rs.Namespace).Create(ctx, loop.PodFromTemplate(&rs.Spec.Template, o), metav1.CreateOptions{})
	if err != nil {
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			c.deps.Recorder.Eventf(rs, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		}
		return err
	}
	c.deps.Recorder.Eventf(rs, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", made.Name)
	c.deps.Journal.Put(journal.Ref{Namespace: made.Namespace, Name: made.Name, UID: string(made.UID)}, journal.Acted{Controller: c.name, Action: "created the Pod", Message: "for " + rs.Name})
	return nil
}

func (c *controller) delete(ctx context.Context, o loop.Owner, pods []*corev1.Pod) error {
	key := o.Key()
	rs := o.Object.(*appsv1.ReplicaSet)
	uids := make([]string, len(pods))
	for i, p := range pods {
		uids[i] = string(p.UID)
	}
	c.expect.Expect(key, 0, uids, time.Now())
	errs := make([]error, len(pods))
	var wg sync.WaitGroup
	for i, p := range pods {
		wg.Go(func() {
			err := c.deps.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
			switch {
			case err == nil:
				c.deps.Recorder.Eventf(rs, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", p.Name)
				c.deps.Journal.Put(journal.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}, journal.Acted{Controller: c.name, Action: "deletes the Pod", Message: fmt.Sprintf("%s wants %d Pods", rs.Name, replicas(rs))})
			case apierrors.IsNotFound(err):
				c.expect.Deleted(key, string(p.UID))
			default:
				c.expect.Deleted(key, string(p.UID))
				c.deps.Recorder.Eventf(rs, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return firstOf(errs)
}

func (c *controller) writeStatus(ctx context.Context, rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if equality.Semantic.DeepEqual(rs.Status, status) {
		return nil
	}
	rs = rs.DeepCopy()
	rs.Status = status
	return loop.IgnoreGone(c.sets.writeStatus(ctx, rs))
}
