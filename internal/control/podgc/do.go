// Package podgc deletes Pods that no other component will: on nodes that are gone, deleted before
// they were scheduled, or terminated long ago.
//
// In: Pods, nodes. Out: Failed status with its reason if a controller counts the end, then deletion
// with grace period 0.
package podgc

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// gcCheckPeriod is the usual time between syncs.
const gcCheckPeriod = 20 * time.Second

const gcKey = "all"

type controller struct {
	controllerContext controllerruntime.ControllerContext
	pods              corelisters.PodLister
	nodes             corelisters.NodeLister
	missing           map[string]time.Time // used by the only worker
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core := d.Informers.Core().V1()
	c := &controller{controllerContext: d, pods: core.Pods().Lister(), nodes: core.Nodes().Lister()}
	q := controllerruntime.NewQueue("podgc", 1, c.gc)
	q.Watch(core.Nodes().Informer(), func(old, cur runtime.Object) []string {
		if cur == nil {
			return []string{gcKey}
		}
		return nil
	})
	q.Watch(core.Pods().Informer(), func(_, cur runtime.Object) []string {
		if p, ok := cur.(*corev1.Pod); ok && p.DeletionTimestamp != nil && p.Spec.NodeName == "" {
			return []string{gcKey}
		}
		return nil
	})
	q.Add(gcKey)
	return q
}

func (c *controller) gc(ctx context.Context, _ string) (time.Duration, error) {
	in := In{Nodes: map[string]*corev1.Node{}, Missing: c.missing, TerminatedThreshold: TerminatedPodThreshold,
		Now: c.controllerContext.Time(), Quarantine: cmp.Or(c.controllerContext.NodeQuarantine, QuarantineTime)}
	var err error
	if in.Pods, err = c.pods.List(labels.Everything()); err != nil {
		return 0, err
	}
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	for _, n := range nodes {
		in.Nodes[n.Name] = n
	}
	removals, missing := Next(in)
	c.missing = missing
	// One Pod whose removal is refused keeps no other.
	var failed []error
	for _, r := range removals {
		failed = append(failed, c.remove(ctx, r))
	}
	return wait(in, missing), errors.Join(failed...)
}

func (c *controller) remove(ctx context.Context, r Removal) error {
	p := r.Pod
	if r.Fail {
		if _, err := c.controllerContext.Client.CoreV1().Nodes().Get(ctx, p.Spec.NodeName,
			metav1.GetOptions{}); err == nil && r.Message == noNode {
			return nil // the cache was behind: the node exists
		}
		if err := controllerruntime.IgnoreNotFound(c.fail(ctx, r)); err != nil {
			r.count(err)
			return err
		}
	}
	c.controllerContext.Journal.Put(journal.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)},
		journal.Acted{Controller: "podgc", Action: "removes the Pod", Message: r.Message})
	zero := int64(0)
	err := c.controllerContext.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	if apierrors.IsConflict(err) {
		return nil // another Pod has the name
	}
	err = controllerruntime.IgnoreNotFound(err)
	r.count(err)
	return err
}

// fail marks the Pod Failed with the DisruptionTarget condition.
func (c *controller) fail(ctx context.Context, r Removal) error {
	p := r.Pod
	if pod.IsTerminal(p) {
		return nil
	}
	return controllerruntime.Disruption{Reason: r.Reason, Message: r.Message, Failed: true}.SetCondition(ctx,
		c.controllerContext.Client, p)
}
