// Package nodelifecycle monitors nodes: it sets conditions of unreachable nodes to Unknown, taints
// nodes by their conditions, and marks Pods of such nodes as not ready.
//
// In: nodes and their leases. Out: node conditions and taints, Ready=False on Pods of nodes that
// are not ready. Only our own clock counts: a node's lease or status either changed or did not.
package nodelifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coordlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/pod"
)

const leases = "kube-node-lease"

// ByNode is the index of Pods by node name.
const ByNode = "nodeName"

type controller struct {
	controllerContext controllerruntime.ControllerContext
	nodes             corelisters.NodeLister
	leases            coordlisters.LeaseLister
	pods              cache.SharedIndexInformer

	mu               sync.Mutex
	health           map[string]NodeHealth
	unreachableSince map[string]time.Time // by node: since when its Pods should be evicted and are not
	taintedAt        map[string]time.Time // by zone: when a node was last tainted for eviction
	zones            map[string]Zone
	zonesCountedAt   time.Time // when zones was computed
	metrics          zoneMetrics
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	nodes, lease := d.Informers.Core().V1().Nodes(), d.Informers.Coordination().V1().Leases()
	c := &controller{controllerContext: d, nodes: nodes.Lister(), leases: lease.Lister(),
		pods: d.Informers.Core().V1().Pods().Informer(), health: map[string]NodeHealth{},
		unreachableSince: map[string]time.Time{}, taintedAt: map[string]time.Time{},
		metrics: newZoneMetrics()}
	_ = c.pods.AddIndexers(
		cache.Indexers{
			ByNode: func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }})
	q := controllerruntime.NewQueue("nodelifecycle", 2, c.syncNode)
	q.WatchByKey(nodes.Informer())
	q.Watch(lease.Informer(), func(old, cur runtime.Object) []string {
		if m, ok := cur.(metav1.Object); ok && m.GetNamespace() == leases {
			return []string{m.GetName()}
		}
		return nil
	})
	return q
}

func (c *controller) syncNode(ctx context.Context, name string) (time.Duration, error) {
	n, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		c.mu.Lock()
		delete(c.health, name)
		delete(c.unreachableSince, name)
		c.metrics.observeNode(name, nil)
		c.mu.Unlock()
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	silent, again := c.updateHealth(n)
	if silent {
		if n, err = c.markUnknown(ctx, n); err != nil {
			return 0, err
		}
	}
	drive, turn, err := c.evictionTurn(n, c.controllerContext.Time())
	if err != nil {
		return 0, err
	}
	if turn > 0 && (again == 0 || turn < again) {
		again = turn
	}
	if taints, changed := Taints(n, metav1.NewTime(c.controllerContext.Time()), drive); changed {
		if err := c.writeTaints(ctx, n, taints); err != nil {
			return 0, err
		}
		if evicts(n.Spec.Taints, taints) {
			evictions.WithLabelValues(ZoneOf(n)).Inc()
		}
	}
	if node.NotReadyCondition(n) != nil && n.DeletionTimestamp == nil {
		if err := c.markPodsNotReady(ctx, n.Name); err != nil {
			return 0, err
		}
	}
	return again, nil
}

// evictionTurn reports whether the node's Pods may be evicted now, and otherwise when to check
// again; 0: not in the present state.
func (c *controller) evictionTurn(n *corev1.Node, now time.Time) (bool, time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted, done := OutOfServiceDrain(n)
	if !wanted || done {
		delete(c.unreachableSince, n.Name)
		return true, 0, nil
	}
	if now.Sub(c.zonesCountedAt) >= zoneRecountPeriod {
		all, err := c.nodes.List(labels.Everything())
		if err != nil {
			return false, 0, err
		}
		c.zones, c.zonesCountedAt = Zones(all), now
	}
	if c.unreachableSince[n.Name].IsZero() {
		c.unreachableSince[n.Name] = now
	}
	zone := ZoneOf(n)
	may, again := EvictionTurn(c.unreachableSince[n.Name], c.taintedAt[zone], EvictionRate(c.zones, zone), now)
	if may {
		c.taintedAt[zone] = now
	}
	return may, again, nil
}

func (c *controller) updateHealth(n *corev1.Node) (bool, time.Duration) {
	beat, posted := "", false
	if c := node.ReadyCondition(n); c != nil {
		beat, posted = c.LastHeartbeatTime.String(), true
	}
	if l, err := c.leases.Leases(leases).Get(n.Name); err == nil && l.Spec.RenewTime != nil {
		beat += l.Spec.RenewTime.String()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := UpdateHealth(c.health[n.Name], Heartbeat{beat, posted, n.CreationTimestamp.Time}, c.controllerContext.Time())
	c.health[n.Name] = h
	c.metrics.observeNode(n.Name, n)
	grace := cmp.Or(c.controllerContext.NodeMonitorGracePeriod, MonitorGracePeriod)
	return IsUnreachable(h, grace, c.controllerContext.Time())
}

func (c *controller) markUnknown(ctx context.Context, n *corev1.Node) (*corev1.Node, error) {
	conditions, changed := UnknownConditions(n, metav1.NewTime(c.controllerContext.Time()))
	if !changed {
		return n, nil
	}
	c.controllerContext.Recorder.Event(n, corev1.EventTypeNormal,
		"NodeNotReady", fmt.Sprintf("Node %s status is now: NodeNotReady", n.Name))
	n = n.DeepCopy()
	n.Status.Conditions = conditions
	return c.controllerContext.Client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
}

func (c *controller) writeTaints(ctx context.Context, n *corev1.Node, taints []corev1.Taint) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "uid": n.UID},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return err
	}
	_, err = c.controllerContext.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, body,
		metav1.PatchOptions{})
	return err
}

// markPodsNotReady marks the Pods of a node that is not ready, so that they get no traffic while
// their probes are not reported.
func (c *controller) markPodsNotReady(ctx context.Context, node string) error {
	pods, err := c.pods.GetIndexer().ByIndex(ByNode, node)
	if err != nil {
		return err
	}
	var failed []error
	for _, raw := range pods {
		p := raw.(*corev1.Pod)
		if !pod.IsReady(p) {
			continue
		}
		body := fmt.Sprintf(
			`{"metadata":{"uid":%q},"status":{"conditions":[{"type":"Ready","status":"False",`+
				`"lastTransitionTime":%q}]}}`, p.UID,
			c.controllerContext.Time().UTC().Format(time.RFC3339))
		_, err := c.controllerContext.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name,
			types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, err)
			continue
		}
		c.controllerContext.Recorder.Event(p, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
		c.controllerContext.Journal.Put(pod.Ref(p), journal.Acted{Controller: "nodelifecycle",
			Action: "marks the Pod not ready", Message: "node " + node + " is not ready"})
	}
	return errors.Join(failed...)
}
