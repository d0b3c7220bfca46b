// Package daemonset keeps one Pod on each node that its template fits.
//
// Chapter 1, written; the scheduler binds its Pods like all others, by an affinity that names the node. In: DaemonSets, nodes, Pods, revisions.
// Out: Pods, ControllerRevisions, status.
package daemonset

import (
	"context"
	"errors"
	"sync"
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
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/control/history"
	"github.com/gantry-project/gantry/internal/control/loop"
)

var kind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// A node whose daemon ends again and again gets the next one after a pause from the first to the second.
const firstPause, longestPause = time.Second, 15 * time.Minute

type controller struct {
	deps      loop.Deps
	sets      appslisters.DaemonSetLister
	nodes     corelisters.NodeLister
	pods      cache.SharedIndexInformer
	revisions cache.SharedIndexInformer
	hands     loop.Hands
	pauses    *flowcontrol.Backoff
}

// New makes the controller.
func New(d loop.Deps) loop.Runner {
	apps, core := d.Informers.Apps().V1(), d.Informers.Core().V1()
	c := &controller{
		deps: d, sets: apps.DaemonSets().Lister(), nodes: core.Nodes().Lister(), pods: core.Pods().Informer(),
		revisions: apps.ControllerRevisions().Informer(), hands: loop.Hands{Deps: d, Expect: loop.NewExpectations(), Controller: "daemonset"}, pauses: flowcontrol.NewBackOff(firstPause, longestPause),
	}
	loop.IndexByController(c.pods)
	loop.IndexByController(c.revisions)
	q := loop.NewQueue("daemonset", 2, c.sync)
	q.WatchSelf(apps.DaemonSets().Informer())
	q.Watch(c.pods, c.podChanged)
	q.Watch(core.Nodes().Informer(), c.nodeChanged)
	q.Needs(c.revisions)
	return q
}

func (c *controller) podChanged(old, cur runtime.Object) []string {
	keys := loop.OwnerKeys(kind.Kind)(old, cur)
	c.hands.Expect.Note(keys, old, cur)
	p, orphan := loop.Adoptable[*corev1.Pod](cur)
	if !orphan {
		return keys
	}
	sets, _ := c.sets.DaemonSets(p.Namespace).List(labels.Everything())
	for _, s := range sets {
		if loop.Selects(s.Spec.Selector, p.Labels) {
			keys = append(keys, s.Namespace+"/"+s.Name)
		}
	}
	return keys
}

// nodeChanged wakes every set when what decides about placement has changed.
func (c *controller) nodeChanged(old, cur runtime.Object) []string {
	was, _ := old.(*corev1.Node)
	is, _ := cur.(*corev1.Node)
	if was != nil && is != nil && equality.Semantic.DeepEqual(was.Labels, is.Labels) && equality.Semantic.DeepEqual(was.Spec, is.Spec) {
		return nil
	}
	sets, _ := c.sets.List(labels.Everything())
	var keys []string
	for _, s := range sets {
		keys = append(keys, s.Namespace+"/"+s.Name)
	}
	return keys
}

func (c *controller) sync(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	set, err := c.sets.DaemonSets(ns).Get(name)
	if apierrors.IsNotFound(err) {
		c.hands.Expect.Forget(key)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return 0, nil
	}
	if selector.Empty() {
		c.deps.Recorder.Eventf(set, corev1.EventTypeWarning, "SelectingAll", "This daemon set is selecting all pods. A non-empty selector is required.")
		return 0, nil
	}
	ready := c.hands.Expect.Satisfied(key, time.Now())
	owner := loop.Owner{Object: set, Kind: kind, Selector: selector}
	in := In{Set: set, Now: time.Now()}
	if in.Nodes, err = c.nodes.List(labels.Everything()); err != nil {
		return 0, err
	}
	if in.Pods, err = loop.Claim[*corev1.Pod](ctx, owner, c.pods, c.deps.PatchPod); err != nil {
		return 0, err
	}
	have, err := loop.Claim[*appsv1.ControllerRevision](ctx, owner, c.revisions, c.deps.PatchRevision)
	if err != nil {
		return 0, err
	}
	collisions := ptr.Deref(set.Status.CollisionCount, 0)
	revision, err := history.Keep(ctx, c.deps.Client.AppsV1().ControllerRevisions(ns),
		history.Owner{Object: set, Kind: kind, Template: &set.Spec.Template, Collisions: collisions, Label: appsv1.DefaultDaemonSetUniqueLabelKey}, have)
	if collision := (history.Collision{}); errors.As(err, &collision) {
		status := *set.Status.DeepCopy()
		collisions++
		status.CollisionCount = &collisions
		return 0, c.writeStatus(ctx, set, status)
	}
	if err != nil {
		return 0, err
	}
	in.Hash = revision.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
	var failure error
	var pause time.Duration
	if ready {
		pause, failure = c.do(ctx, owner, in, Next(in))
	}
	status, again := Status(in, collisions)
	if pause > 0 && (again == 0 || pause < again) {
		again = pause
	}
	return again, errors.Join(failure, c.writeStatus(ctx, set, status), c.forget(ctx, in, revision.Name, have))
}

// do carries out the plan; pause says in how long an ended Pod may be replaced that may not be now.
func (c *controller) do(ctx context.Context, o loop.Owner, in In, plan Plan) (pause time.Duration, err error) {
	gone := plan.Delete
	for _, p := range plan.Ended {
		if p.Status.Phase == corev1.PodFailed {
			id := pauseKey(in.Set, p)
			if c.pauses.IsInBackOffSinceUpdate(id, in.Now) {
				left := c.pauses.Get(id)
				if pause == 0 || left < pause {
					pause = left
				}
				continue
			}
			c.pauses.Next(id, in.Now)
			c.deps.Recorder.Eventf(in.Set, corev1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod %s/%s on node %s, will try to kill it", p.Namespace, p.Name, Target(p))
		} else {
			c.deps.Recorder.Eventf(in.Set, corev1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod %s/%s on node %s, will try to delete it", p.Namespace, p.Name, Target(p))
		}
		gone = append(gone, p)
	}
	c.hands.Expect.Expect(o.Key(), len(plan.Create), gone, time.Now())
	var wg sync.WaitGroup
	var deleted error
	wg.Go(func() { deleted = c.hands.Delete(ctx, o, gone, "the DaemonSet wants no such Pod on its node") })
	created := c.hands.Create(ctx, o, len(plan.Create), func(i int) *corev1.Pod { return Pod(in.Set, plan.Create[i], in.Hash) })
	wg.Wait()
	return pause, errors.Join(deleted, loop.IgnoreEnding(created))
}

// Pod makes the Pod of a node: the scheduler may place it there only.
func Pod(set *appsv1.DaemonSet, node, hash string) *corev1.Pod {
	p := loop.PodFromTemplate(&set.Spec.Template, loop.Owner{Object: set, Kind: kind})
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = hash
	if g := set.Annotations[appsv1.DeprecatedTemplateGeneration]; g != "" {
		p.Labels[generationLabel] = g
	}
	for _, t := range Tolerations(&p.Spec) {
		has := false
		for _, have := range p.Spec.Tolerations {
			has = has || have.MatchToleration(&t)
		}
		if !has {
			p.Spec.Tolerations = append(p.Spec.Tolerations, t)
		}
	}
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	if p.Spec.Affinity.NodeAffinity == nil {
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	// The template's own terms were judged by the controller; only the node is left to say.
	p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
	return p
}

// forget deletes revisions beyond the limit that no Pod is of.
func (c *controller) forget(ctx context.Context, in In, current string, have []*appsv1.ControllerRevision) error {
	hashes := map[string]bool{}
	for _, p := range in.Pods {
		hashes[p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]] = true
	}
	inUse := map[string]bool{current: true}
	for _, r := range have {
		if hashes[r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]] {
			inUse[r.Name] = true
		}
	}
	return history.Trim(ctx, c.deps.Client.AppsV1().ControllerRevisions(in.Set.Namespace), history.Past{Have: have, InUse: inUse, Limit: in.Set.Spec.RevisionHistoryLimit})
}

func (c *controller) writeStatus(ctx context.Context, set *appsv1.DaemonSet, s appsv1.DaemonSetStatus) error {
	if equality.Semantic.DeepEqual(set.Status, s) {
		return nil
	}
	set = set.DeepCopy()
	set.Status = s
	_, err := c.deps.Client.AppsV1().DaemonSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{})
	return loop.IgnoreGone(err)
}
