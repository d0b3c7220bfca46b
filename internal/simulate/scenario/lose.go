package scenario

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lose cuts nodes off: their kubelets report nothing any more, as when power or network are gone.
type Lose struct {
	Nodes []string
	Zone  string // instead of Nodes: all nodes of this zone
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

// heartbeats has the nodes report, so that it is seen which do not.
func (*Lose) heartbeats() {}

// Begin implements Change.
func (l *Lose) Begin(ctx context.Context, r *Run) error {
	if l.Zone != "" {
		var err error
		if l.Nodes, err = nodesOf(ctx, r, l.Zone); err != nil {
			return err
		}
	}
	for _, name := range l.Nodes {
		if _, err := r.Cluster.Client().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return nodeError(ctx, r, name, err)
		}
		r.Cluster.Lose(name)
	}
	return nil
}

// Done implements Change: the nodes' Pods that can be replaced are, and ready. What is on a silent
// node leaves only when the node comes back or is deleted.
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
		if lost[p.Spec.NodeName] && p.DeletionTimestamp == nil && leavesUnreachable(p) {
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
