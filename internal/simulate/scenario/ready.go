package scenario

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// noneRefused tells whether no workload's Pods are refused; of one whose are, the outcome says why.
func (r *Run) noneRefused() bool {
	refused := r.refused.since()
	if len(refused) == 0 {
		return true
	}
	r.Forecast.Outcome.Why = refused[0].Object + ": " + refused[0].Cause
	return false
}

// allReady tells whether every Pod that left is gone, every one that came is ready or has ended,
// and none was refused.
func (r *Run) allReady() bool {
	if !r.noneRefused() {
		return false
	}
	for _, uid := range r.pods.order {
		p := r.pods.byUID[uid]
		switch {
		case p.Gone != nil:
		case p.Leaves != nil, p.Created != nil && p.Ready == nil && !r.pods.ended[uid]:
			return false
		}
	}
	return true
}

// Unready returns the Pods that are not ready though they should be, at the end of a run.
func (r *Run) Unready(ctx context.Context) ([]corev1.Pod, error) {
	all, err := r.Cluster.Client().CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, p := range all.Items {
		f := r.pods.byUID[p.UID]
		if f == nil || f.Created == nil || p.Status.Phase == corev1.PodSucceeded || pod.IsReady(&p) ||
			evicted(&p) {
			continue
		}
		out = append(out, p)
	}
	if !r.Forecast.Outcome.Done && len(out) > 0 {
		r.Forecast.Outcome.Why = fmt.Sprintf("%s of %d Pods that came do not become ready", plural(len(out)),
			r.came())
	}
	return out, nil
}

func (r *Run) came() int {
	n := 0
	for _, uid := range r.pods.order {
		if r.pods.byUID[uid].Created != nil {
			n++
		}
	}
	return n
}

func plural(n int) string { return fmt.Sprint(n) }
