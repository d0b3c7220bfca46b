// Package daemonset runs one Pod on each eligible node.
//
// The scheduler binds its Pods, by an affinity that names the node. In: DaemonSets, nodes, Pods,
// revisions. Out: Pods, ControllerRevisions, status.
package daemonset

import (
	"context"
	"errors"
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

	"github.com/gantry-project/gantry/internal/control/controllerrevision"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

var kind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// Backoff between replacements of a daemon Pod that keeps failing on a node.
const initialBackoff, maxBackoff = time.Second, 15 * time.Minute

type controller struct {
	controllerContext controllerruntime.ControllerContext
	sets              appslisters.DaemonSetLister
	nodes             corelisters.NodeLister
	pods              cache.SharedIndexInformer
	revisions         cache.SharedIndexInformer
	podControl        controllerruntime.PodControl
	failedPodsBackoff *flowcontrol.Backoff
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	apps, core := d.Informers.Apps().V1(), d.Informers.Core().V1()
	c := &controller{
		controllerContext: d, sets: apps.DaemonSets().Lister(), nodes: core.Nodes().Lister(),
		pods:      core.Pods().Informer(),
		revisions: apps.ControllerRevisions().Informer(), podControl: controllerruntime.PodControl{ControllerContext: d,
			Expectations: controllerruntime.NewExpectations(), Controller: "daemonset"},
		failedPodsBackoff: flowcontrol.NewBackOff(initialBackoff, maxBackoff),
	}
	controllerruntime.IndexByController(c.pods)
	controllerruntime.IndexByController(c.revisions)
	q := controllerruntime.NewQueue("daemonset", 2, c.syncDaemonSet)
	q.WatchByKey(apps.DaemonSets().Informer())
	q.Watch(c.pods, c.podChanged)
	q.Watch(core.Nodes().Informer(), c.nodeChanged)
	q.WaitForInformers(c.revisions)
	return q
}

func (c *controller) podChanged(old, cur runtime.Object) []string {
	keys := controllerruntime.OwnerKeys(kind.Kind)(old, cur)
	c.podControl.Expectations.ObservePod(keys, old, cur)
	p, orphan := controllerruntime.Adoptable[*corev1.Pod](cur)
	if !orphan {
		return keys
	}
	sets, _ := c.sets.DaemonSets(p.Namespace).List(labels.Everything())
	return append(keys, controllerruntime.SelectingKeys(p, sets,
		func(s *appsv1.DaemonSet) *metav1.LabelSelector { return s.Spec.Selector })...)
}

// nodeChanged returns every set if the change affects placement.
func (c *controller) nodeChanged(old, cur runtime.Object) []string {
	was, _ := old.(*corev1.Node)
	is, _ := cur.(*corev1.Node)
	if was != nil && is != nil && equality.Semantic.DeepEqual(was.Labels, is.Labels) && equality.Semantic.DeepEqual(
		was.Spec, is.Spec) {
		return nil
	}
	sets, _ := c.sets.List(labels.Everything())
	var keys []string
	for _, s := range sets {
		keys = append(keys, s.Namespace+"/"+s.Name)
	}
	return keys
}

func (c *controller) syncDaemonSet(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	set, err := c.sets.DaemonSets(ns).Get(name)
	if apierrors.IsNotFound(err) {
		c.podControl.Expectations.DeleteExpectations(key)
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
		c.controllerContext.Recorder.Eventf(set, corev1.EventTypeWarning, "SelectingAll",
			"This daemon set is selecting all pods. A non-empty selector is required.")
		return 0, nil
	}
	ready := c.podControl.Expectations.SatisfiedExpectations(key, c.controllerContext.Time())
	owner := controllerruntime.Owner{Object: set, Kind: kind, Selector: selector}
	in := In{Set: set, Now: c.controllerContext.Time()}
	if in.Nodes, err = c.nodes.List(labels.Everything()); err != nil {
		return 0, err
	}
	if in.Pods, err = controllerruntime.Claim[*corev1.Pod](ctx, owner, c.pods, c.controllerContext.PatchPod); err !=
		nil {
		return 0, err
	}
	have, err := controllerruntime.Claim[*appsv1.ControllerRevision](ctx, owner, c.revisions,
		c.controllerContext.PatchRevision)
	if err != nil {
		return 0, err
	}
	collisions := ptr.Deref(set.Status.CollisionCount, 0)
	revision, err := controllerrevision.Ensure(ctx, c.controllerContext.Client.AppsV1().ControllerRevisions(ns),
		controllerrevision.Owner{Object: set, Kind: kind, Template: &set.Spec.Template, Collisions: collisions,
			Label: appsv1.DefaultDaemonSetUniqueLabelKey}, have)
	if collision := (controllerrevision.Collision{}); errors.As(err, &collision) {
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
	var backoff time.Duration
	if ready {
		backoff, failure = c.do(ctx, owner, in, Next(in))
	}
	status, again := Status(in, collisions)
	if backoff > 0 && (again == 0 || backoff < again) {
		again = backoff
	}
	return again, errors.Join(failure, c.writeStatus(ctx, set, status), c.truncateHistory(ctx, in, revision.Name, have))
}

// do carries out the plan; it returns when a failed Pod in backoff may be replaced.
func (c *controller) do(ctx context.Context, o controllerruntime.Owner, in In,
	plan Plan) (backoff time.Duration, err error) {
	toDelete := plan.Delete
	for _, p := range plan.Finished {
		if p.Status.Phase == corev1.PodFailed {
			id := backoffKey(in.Set, p)
			if c.failedPodsBackoff.IsInBackOffSinceUpdate(id, in.Now) {
				left := c.failedPodsBackoff.Get(id)
				if backoff == 0 || left < backoff {
					backoff = left
				}
				continue
			}
			c.failedPodsBackoff.Next(id, in.Now)
			c.controllerContext.Recorder.Eventf(in.Set, corev1.EventTypeWarning, "FailedDaemonPod",
				"Found failed daemon pod %s/%s on node %s, will try to kill it", p.Namespace, p.Name, TargetNode(p))
		} else {
			c.controllerContext.Recorder.Eventf(in.Set, corev1.EventTypeNormal, "SucceededDaemonPod",
				"Found succeeded daemon pod %s/%s on node %s, will try to delete it", p.Namespace, p.Name,
				TargetNode(p))
		}
		toDelete = append(toDelete, p)
	}
	c.podControl.Expectations.SetExpectations(o.Key(), len(plan.Create), toDelete, c.controllerContext.Time())
	var deleted, created error
	both := []func(){func() {
		deleted = c.podControl.DeletePods(ctx, o, toDelete, "the DaemonSet wants no such Pod on its node")
	}, func() {
		created = c.podControl.CreatePods(ctx, o, len(plan.Create),
			func(i int) *corev1.Pod { return Pod(in.Set, plan.Create[i], in.Hash) })
	}}
	c.controllerContext.Each(len(both), func(i int) { both[i]() })
	return backoff, errors.Join(deleted, controllerruntime.IgnoreNamespaceTerminating(created))
}

// Pod returns the Pod for a node: the scheduler may place it there only.
func Pod(set *appsv1.DaemonSet, node, hash string) *corev1.Pod {
	p := controllerruntime.NewPodFromTemplate(&set.Spec.Template, controllerruntime.Owner{Object: set, Kind: kind})
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
	// The controller has evaluated the template's own terms; only the node is left.
	p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn,
				Values: []string{node}}},
		}}}
	return p
}

// truncateHistory deletes revisions beyond the limit that no Pod uses.
func (c *controller) truncateHistory(ctx context.Context, in In, current string,
	have []*appsv1.ControllerRevision) error {
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
	return controllerrevision.Truncate(ctx, c.controllerContext.Client.AppsV1().ControllerRevisions(in.Set.Namespace),
		controllerrevision.Retention{Revisions: have, InUse: inUse, HistoryLimit: in.Set.Spec.RevisionHistoryLimit})
}

func (c *controller) writeStatus(ctx context.Context, set *appsv1.DaemonSet, s appsv1.DaemonSetStatus) error {
	if equality.Semantic.DeepEqual(set.Status, s) {
		return nil
	}
	set = set.DeepCopy()
	set.Status = s
	_, err := c.controllerContext.Client.AppsV1().DaemonSets(set.Namespace).UpdateStatus(ctx, set,
		metav1.UpdateOptions{})
	return controllerruntime.IgnoreNotFound(err)
}
