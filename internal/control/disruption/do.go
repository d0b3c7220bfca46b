// Package disruption maintains the status of PodDisruptionBudgets, which evictions use, and resets
// DisruptionTarget on Pods that stayed.
//
// In: budgets, Pods, and the scale of the Pods' controllers. Out: budget status, Pod conditions,
// events.
package disruption

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	budgets           policylisters.PodDisruptionBudgetLister
	pods              corelisters.PodLister
	scales            *scaleFinder
	stale             *controllerruntime.Queue
}

// queueGroup runs two queues as one controller.
type queueGroup []*controllerruntime.Queue

// Run runs both queues until ctx ends.
func (b queueGroup) Run(ctx context.Context) {
	b[0].AddBackground(b[1].Run)
	b[0].Run(ctx)
}

// Queues implements controllerruntime.QueueHolder.
func (b queueGroup) Queues() []*controllerruntime.Queue { return b }

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	budgets, pods := d.Informers.Policy().V1().PodDisruptionBudgets(), d.Informers.Core().V1().Pods()
	c := &controller{controllerContext: d, budgets: budgets.Lister(), pods: pods.Lister(), scales: newScaleFinder(d)}
	q := controllerruntime.NewQueue("disruption", 2, c.syncBudget)
	q.WatchByKey(budgets.Informer())
	q.Watch(pods.Informer(), c.podChanged)
	apps := d.Informers.Apps().V1()
	q.WaitForInformers(apps.ReplicaSets().Informer(), apps.Deployments().Informer(), apps.StatefulSets().Informer(),
		d.Informers.Core().V1().ReplicationControllers().Informer())
	c.stale = controllerruntime.NewQueue("disruption-stale", 1, c.syncStalePod)
	c.stale.Watch(pods.Informer(), c.stalePodKey)
	return queueGroup{q, c.stale}
}

// podChanged returns the budgets that count a Pod or counted it. A Pod with several budgets cannot
// be evicted; every one of them counts it all the same.
func (c *controller) podChanged(old, cur runtime.Object) []string {
	var keys []string
	for i, obj := range []runtime.Object{old, cur} {
		p, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		found := c.budgetsFor(p)
		if len(found) > 1 && (i == 1 || cur == nil) {
			c.controllerContext.Recorder.Eventf(p, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
				"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", p.Namespace, p.Name,
				found[0].Name)
		}
		for _, b := range found {
			if key := b.Namespace + "/" + b.Name; !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// budgetsFor returns the budgets that select the Pod, sorted by name.
func (c *controller) budgetsFor(p *corev1.Pod) []*policyv1.PodDisruptionBudget {
	all, _ := c.budgets.PodDisruptionBudgets(p.Namespace).List(labels.Everything())
	var out []*policyv1.PodDisruptionBudget
	for _, b := range all {
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && s.Matches(labels.Set(p.Labels)) {
			out = append(out, b)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func (c *controller) syncBudget(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	b, err := c.budgets.PodDisruptionBudgets(ns).Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	in := In{Budget: b, Now: c.controllerContext.Time()}
	ruling, err := c.computeStatus(ctx, &in)
	if err == nil {
		return ruling.RequeueAfter, c.write(ctx, b, ruling.Status)
	}
	// Nothing may be disrupted until the error is gone.
	return 0, c.write(ctx, b, FailureStatus(in, err))
}

func (c *controller) computeStatus(ctx context.Context, in *In) (Result, error) {
	b := in.Budget
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err == nil {
		in.Pods, err = c.pods.Pods(b.Namespace).List(selector)
	}
	if err != nil {
		c.controllerContext.Recorder.Eventf(b, corev1.EventTypeWarning, "NoPods", "Failed to get pods: %v", err)
		return Result{}, err
	}
	if len(in.Pods) == 0 {
		c.controllerContext.Recorder.Eventf(b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	sort.Slice(in.Pods, func(i, j int) bool { return in.Pods[i].Name < in.Pods[j].Name })
	var ruling Result
	if NeedsScales(b) {
		in.Scales, err = c.scales.expectedScales(ctx, in.Pods)
	}
	if err == nil {
		ruling, err = ComputeStatus(*in)
	}
	if err != nil {
		c.controllerContext.Recorder.Eventf(b, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed",
			"Failed to calculate the number of expected pods: %v", err)
		return Result{}, err
	}
	if len(ruling.Unmanaged) > 0 {
		c.controllerContext.Recorder.Eventf(b, corev1.EventTypeWarning,
			"UnmanagedPods", "Pods selected by this PodDisruptionBudget (selector: %v) were found to be unmanaged. "+
				"As a result, the status of the PDB cannot be calculated correctly, which may result in undefined "+
				"behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an "+
				"integer value.",
			b.Spec.Selector)
	}
	for _, p := range ruling.NotDeleted {
		c.controllerContext.Recorder.Eventf(p, corev1.EventTypeWarning, "NotDeleted",
			"Pod was expected by PDB %s/%s to be deleted but it wasn't", b.Namespace, b.Name)
	}
	return ruling, nil
}

func (c *controller) write(ctx context.Context, b *policyv1.PodDisruptionBudget,
	s policyv1.PodDisruptionBudgetStatus) error {
	if Same(b.Status, s) {
		return nil
	}
	b = b.DeepCopy()
	b.Status = s
	_, err := c.controllerContext.Client.PolicyV1().PodDisruptionBudgets(b.Namespace).UpdateStatus(ctx, b,
		metav1.UpdateOptions{})
	return controllerruntime.IgnoreNotFound(err)
}

func (c *controller) stalePodKey(_, cur runtime.Object) []string {
	p, ok := cur.(*corev1.Pod)
	if !ok {
		return nil
	}
	if stale, _ := StaleDisruption(p, c.controllerContext.Time()); stale {
		return []string{p.Namespace + "/" + p.Name}
	}
	return nil
}

// syncStalePod resets a DisruptionTarget condition after its timeout.
func (c *controller) syncStalePod(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	p, err := c.pods.Pods(ns).Get(name)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	now := c.controllerContext.Time()
	stale, left := StaleDisruption(p, now)
	if !stale || left > 0 {
		return left, nil
	}
	p = p.DeepCopy()
	p.Status = WithoutDisruptionTarget(p, now)
	if _, err := c.controllerContext.Client.CoreV1().Pods(ns).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
		return 0, controllerruntime.IgnoreNotFound(fmt.Errorf("taking DisruptionTarget back from %s: %w", key, err))
	}
	return 0, nil
}
