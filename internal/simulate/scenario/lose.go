package scenario

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/simulate/memstore"
)

// Lose cuts nodes off: their kubelets report nothing any more, as when power or network are gone.
type Lose struct {
	Nodes []string
	Zone  string // instead of Nodes: all nodes of this zone
	// OutOfService: when a node is seen not to be ready, somebody says by the taint that it is off,
	// so that its Pods are deleted and its volumes detached
	OutOfService bool
	// NodeMonitorGracePeriod is how long the cluster waits for a report of a node; 0: the
	// controllers' default, 50 s.
	NodeMonitorGracePeriod time.Duration
}

// Verb implements Change.
func (l *Lose) Verb() string { return "lose" }

// Target implements Change.
func (l *Lose) Target() []string {
	if l.Zone != "" {
		return []string{"zone/" + l.Zone}
	}
	return (&Drain{Nodes: l.Nodes}).Target()
}

// gracePeriod implements silencer.
func (l *Lose) gracePeriod() time.Duration { return l.NodeMonitorGracePeriod }

// Begin implements Change.
func (l *Lose) Begin(ctx context.Context, r *Run) error {
	if l.Zone != "" {
		var err error
		if l.Nodes, err = nodesOf(ctx, r, l.Zone); err != nil {
			return err
		}
	}
	if l.OutOfService {
		r.Cluster.Watch(func(change memstore.Change) {
			if n, ok := change.New.(*corev1.Node); ok {
				l.noticed(r, n)
			}
		})
	}
	for _, name := range l.Nodes {
		n, err := r.Cluster.Client().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nodeError(ctx, r, name, err)
		}
		r.Cluster.Lose(name)
		if l.OutOfService {
			l.noticed(r, n)
		}
	}
	return nil
}

// noticed has the taint put on a lost node that is seen not to be ready.
func (l *Lose) noticed(r *Run, n *corev1.Node) {
	if !slices.Contains(l.Nodes, n.Name) || isOutOfService(n) || node.NotReadyCondition(n) == nil {
		return
	}
	r.Cluster.At(r.Cluster.Now(), func(ctx context.Context) {
		nodes := r.Cluster.Client().CoreV1().Nodes()
		n, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil || isOutOfService(n) {
			return
		}
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown",
			Effect: corev1.TaintEffectNoExecute})
		if _, err := nodes.Update(ctx, n, metav1.UpdateOptions{}); err != nil {
			r.err = err
		}
	})
}

func isOutOfService(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}

// Done implements Change: the nodes' Pods that can be replaced are, and ready. What is on a silent
// node leaves only when the node comes back, is deleted or is out of service.
func (l *Lose) Done(ctx context.Context, r *Run) (bool, error) {
	lost := map[string]bool{}
	for _, n := range l.Nodes {
		lost[n] = true
	}
	all, err := r.Cluster.Client().CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for i := range all.Items {
		p := &all.Items[i]
		if lost[p.Spec.NodeName] && (p.DeletionTimestamp == nil || l.OutOfService) && leavesUnreachable(p) {
			return false, nil
		}
	}
	for _, uid := range r.pods.order {
		p := r.pods.byUID[uid]
		if p.Created != nil && p.Gone == nil && p.Leaves == nil && p.Ready == nil && !r.pods.ended[uid] {
			return false, nil
		}
	}
	return r.noneRefused(), nil
}
