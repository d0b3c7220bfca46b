// Package tainteviction evicts Pods from nodes whose NoExecute taints they do not tolerate, or no
// longer.
//
// In: Pods, nodes' taints. Out: the condition DisruptionTarget with reason DeletionByTaintManager,
// then the deletion.
package tainteviction

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
)

const byNodeIndex = "taintevictNode"

type controller struct {
	controllerContext controllerruntime.ControllerContext
	pods              corelisters.PodLister
	nodes             corelisters.NodeLister

	mu        sync.Mutex
	scheduled map[string]bool       // Pods to be evicted later, by NAMESPACE/NAME
	taints    map[string]nodeTaints // by node
}

// nodeTaints is when a node's undated taints were first seen.
type nodeTaints struct {
	uid   types.UID // of the node
	times TaintTimes
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	pods, nodes := d.Informers.Core().V1().Pods(), d.Informers.Core().V1().Nodes()
	c := &controller{controllerContext: d, pods: pods.Lister(), nodes: nodes.Lister(), scheduled: map[string]bool{},
		taints: map[string]nodeTaints{}}
	_ = pods.Informer().AddIndexers(
		cache.Indexers{byNodeIndex: func(obj any) ([]string, error) {
			return []string{obj.(*corev1.Pod).Spec.NodeName}, nil
		}})
	q := controllerruntime.NewQueue("taintevict", 4, c.syncPod)
	q.Watch(pods.Informer(), func(old, cur runtime.Object) []string {
		p, ok := cur.(*corev1.Pod)
		if !ok || p.Spec.NodeName == "" {
			return nil
		}
		if o, ok := old.(*corev1.Pod); ok && o.Spec.NodeName == p.Spec.NodeName && equality.Semantic.DeepEqual(
			o.Spec.Tolerations, p.Spec.Tolerations) {
			return nil
		}
		return []string{p.Namespace + "/" + p.Name}
	})
	q.Watch(nodes.Informer(), func(old, cur runtime.Object) []string {
		n, ok := cur.(*corev1.Node)
		if !ok {
			if deleted, ok := old.(*corev1.Node); ok {
				c.removeNode(deleted.Name)
			}
			return nil
		}
		c.recordTaints(n, c.controllerContext.Time())
		if o, ok := old.(*corev1.Node); ok && equality.Semantic.DeepEqual(o.Spec.Taints, n.Spec.Taints) {
			return nil
		}
		var keys []string
		there, _ := pods.Informer().GetIndexer().ByIndex(byNodeIndex, n.Name)
		for _, raw := range there {
			keys = append(keys, raw.(*corev1.Pod).Namespace+"/"+raw.(*corev1.Pod).Name)
		}
		return keys
	})
	return q
}

func (c *controller) syncPod(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := strings.Cut(key, "/")
	p, err := c.pods.Pods(ns).Get(name)
	if err != nil || p.DeletionTimestamp != nil || p.Spec.NodeName == "" {
		c.planEviction(key, false)
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	n, err := c.nodes.Get(p.Spec.NodeName)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	now := c.controllerContext.Time()
	v := Decide(p, n.Spec.Taints, c.recordTaints(n, now), now)
	wait := v.At.Sub(now)
	if before := c.planEviction(key, v.Evict && wait > 0); before && !v.Evict {
		c.controllerContext.Recorder.Event(p, corev1.EventTypeNormal,
			"TaintManagerEviction", "Cancelling deletion of Pod "+p.Namespace+"/"+p.Name)
		c.controllerContext.Journal.Put(journal.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)},
			journal.Acted{Controller: "taintevict", Action: "lets the Pod stay",
				Message: "no taint of its node asks it to leave any more"})
	}
	if !v.Evict {
		return 0, nil
	}
	if wait > 0 {
		return wait, nil
	}
	return 0, controllerruntime.IgnoreNotFound(c.evict(ctx, p, v))
}

// recordTaints records when the node's taints were first seen, whether or not they concern a Pod.
func (c *controller) recordTaints(n *corev1.Node, now time.Time) TaintTimes {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.taints[n.Name]
	if before.uid != n.UID {
		before.times = nil
	}
	seen := RecordTaints(n, before.times, now)
	if len(seen) == 0 {
		delete(c.taints, n.Name)
		return nil
	}
	c.taints[n.Name] = nodeTaints{n.UID, seen}
	return seen
}

func (c *controller) removeNode(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.taints, node)
}

// planEviction records whether a Pod is to be evicted later, and returns whether it was before.
func (c *controller) planEviction(pod string, later bool) (before bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.scheduled[pod]
	if later {
		c.scheduled[pod] = true
	} else {
		delete(c.scheduled, pod)
	}
	return before
}

// evictionText says for which taint a Pod is deleted, how long it tolerated that, and whether
// anybody makes it anew.
func evictionText(p *corev1.Pod, t corev1.Taint) string {
	text := fmt.Sprintf("taint %s of node %s is not tolerated", t.ToString(), p.Spec.NodeName)
	if tolerated, shortest := toleratedFor(p, t); tolerated && shortest != nil {
		text = fmt.Sprintf("taint %s of node %s is tolerated for %d s (tolerationSeconds) and no longer", t.ToString(),
			p.Spec.NodeName, *shortest)
	}
	if metav1.GetControllerOf(p) == nil {
		text += "; no controller makes the Pod anew"
	}
	return text
}

func (c *controller) evict(ctx context.Context, p *corev1.Pod, v Decision) error {
	c.controllerContext.Recorder.Event(p, corev1.EventTypeNormal,
		"TaintManagerEviction", "Marking for deletion Pod "+p.Namespace+"/"+p.Name)
	c.controllerContext.Journal.Put(journal.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)},
		journal.Acted{Controller: "taintevict", Action: "deletes the Pod",
			Message: evictionText(p, v.Taint)})
	err := controllerruntime.Disruption{Reason: "DeletionByTaintManager",
		Message: "Taint manager: deleting due to NoExecute taint"}.Delete(ctx, c.controllerContext.Client, p)
	if err == nil {
		count(v.At)
	}
	return err
}
