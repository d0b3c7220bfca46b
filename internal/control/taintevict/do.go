// Package taintevict deletes Pods from nodes whose NoExecute taints they do not tolerate, or not for longer.
//
// Chapter 9, pressed. In: Pods, nodes' taints. Out: the condition DisruptionTarget with reason DeletionByTaintManager, then the deletion.
package taintevict

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/loop"
	"github.com/gantry-project/gantry/internal/journal"
)

const byNode = "taintevictNode"

type controller struct {
	deps  loop.Deps
	pods  corelisters.PodLister
	nodes corelisters.NodeLister

	mu      sync.Mutex
	planned map[string]bool  // Pods that are to leave later, by namespace/name
	seen    map[string]noted // by node
}

// noted is what is known of a node's taints that do not tell their time.
type noted struct {
	uid  types.UID // of the node
	seen Seen
}

// New makes the controller.
func New(d loop.Deps) loop.Runner {
	pods, nodes := d.Informers.Core().V1().Pods(), d.Informers.Core().V1().Nodes()
	c := &controller{deps: d, pods: pods.Lister(), nodes: nodes.Lister(), planned: map[string]bool{}, seen: map[string]noted{}}
	_ = pods.Informer().AddIndexers(cache.Indexers{byNode: func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }})
	q := loop.NewQueue("taintevict", 4, c.sync)
	q.Watch(pods.Informer(), func(old, cur runtime.Object) []string {
		p, ok := cur.(*corev1.Pod)
		if !ok || p.Spec.NodeName == "" {
			return nil
		}
		if o, ok := old.(*corev1.Pod); ok && o.Spec.NodeName == p.Spec.NodeName && equality.Semantic.DeepEqual(o.Spec.Tolerations, p.Spec.Tolerations) {
			return nil
		}
		return []string{p.Namespace + "/" + p.Name}
	})
	q.Watch(nodes.Informer(), func(old, cur runtime.Object) []string {
		n, ok := cur.(*corev1.Node)
		if !ok {
			if gone, ok := old.(*corev1.Node); ok {
				c.forget(gone.Name)
			}
			return nil
		}
		c.note(n, time.Now())
		if o, ok := old.(*corev1.Node); ok && equality.Semantic.DeepEqual(o.Spec.Taints, n.Spec.Taints) {
			return nil
		}
		var keys []string
		there, _ := pods.Informer().GetIndexer().ByIndex(byNode, n.Name)
		for _, raw := range there {
			keys = append(keys, raw.(*corev1.Pod).Namespace+"/"+raw.(*corev1.Pod).Name)
		}
		return keys
	})
	return q
}

func (c *controller) sync(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := strings.Cut(key, "/")
	p, err := c.pods.Pods(ns).Get(name)
	if err != nil || p.DeletionTimestamp != nil || p.Spec.NodeName == "" {
		c.plan(key, false)
		return 0, loop.IgnoreGone(err)
	}
	n, err := c.nodes.Get(p.Spec.NodeName)
	if err != nil {
		return 0, loop.IgnoreGone(err)
	}
	now := time.Now()
	v := Judge(p, n.Spec.Taints, c.note(n, now), now)
	wait := v.At.Sub(now)
	if before := c.plan(key, v.Leave && wait > 0); before && !v.Leave {
		c.deps.Recorder.Event(p, corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod "+p.Namespace+"/"+p.Name)
		c.deps.Journal.Put(journal.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)},
			journal.Acted{Controller: "taintevict", Action: "lets the Pod stay", Message: "no taint of its node asks it to leave any more"})
	}
	if !v.Leave {
		return 0, nil
	}
	if wait > 0 {
		return wait, nil
	}
	return 0, loop.IgnoreGone(c.evict(ctx, p, v))
}

// note keeps when the node's taints were first seen, whether or not a Pod is there that minds.
func (c *controller) note(n *corev1.Node, now time.Time) Seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.seen[n.Name]
	if before.uid != n.UID {
		before.seen = nil
	}
	seen := Note(n, before.seen, now)
	if len(seen) == 0 {
		delete(c.seen, n.Name)
		return nil
	}
	c.seen[n.Name] = noted{n.UID, seen}
	return seen
}

func (c *controller) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, node)
}

// plan notes whether a Pod is to leave later, and tells whether it was.
func (c *controller) plan(pod string, later bool) (before bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.planned[pod]
	if later {
		c.planned[pod] = true
	} else {
		delete(c.planned, pod)
	}
	return before
}

func (c *controller) evict(ctx context.Context, p *corev1.Pod, v Verdict) error {
	c.deps.Recorder.Event(p, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod "+p.Namespace+"/"+p.Name)
	c.deps.Journal.Put(journal.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)},
		journal.Acted{Controller: "taintevict", Action: "deletes the Pod", Message: "taint " + v.Taint.ToString() + " is not tolerated any longer"})
	err := loop.Disruption{Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint"}.Delete(ctx, c.deps.Client, p)
	if err == nil {
		count(v.At)
	}
	return err
}
