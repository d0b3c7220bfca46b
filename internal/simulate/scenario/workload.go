package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Scale gives a workload another number of Pods.
type Scale struct {
	Object   Object
	Replicas int32
}

// Verb implements Change.
func (s *Scale) Verb() string { return "scale" }

// Target implements Change.
func (s *Scale) Target() []string {
	return []string{s.Object.String(), fmt.Sprintf("to %d", s.Replicas)}
}

// Begin implements Change.
func (s *Scale) Begin(ctx context.Context, r *Run) error {
	if s.Object.Kind == "DaemonSet" {
		return fmt.Errorf("%s has no number of Pods: it has one on each node", s.Object)
	}
	if _, err := s.Object.get(ctx, r); err != nil {
		return err
	}
	return s.Object.patch(ctx, r, map[string]any{"spec": map[string]any{"replicas": s.Replicas}})
}

// Done implements Change.
func (s *Scale) Done(ctx context.Context, r *Run) (bool, error) {
	return s.Object.settled(ctx, r)
}

// settled tells whether a workload has the Pods that it wants, all ready, and none is on its way
// out.
func (o Object) settled(ctx context.Context, r *Run) (bool, error) {
	if o.Kind == "ReplicaSet" {
		return r.allReady() && r.Since() > 0, nil
	}
	done, message, err := o.settledOnDelete(ctx, r)
	if err == nil && message == "" && !done {
		done, message, err = o.rolledOut(ctx, r)
	}
	if err != nil {
		message, err = err.Error(), nil
	}
	r.Forecast.Outcome.Why = ""
	if !done {
		r.Forecast.Outcome.Why = strings.TrimSpace(message)
	}
	return done && r.allReady(), err
}

// settledOnDelete tells whether a StatefulSet or DaemonSet whose Pods are replaced only when
// somebody deletes them has as many as it wants, all ready; the message says what it waits for.
// kubectl's rule is an error for these. Of other objects done is false and message empty.
func (o Object) settledOnDelete(ctx context.Context, r *Run) (done bool, message string, err error) {
	live, err := o.get(ctx, r)
	if err != nil {
		return false, "", err
	}
	var wanted, there, ready int32
	var observed bool
	switch w := live.(type) {
	case *appsv1.StatefulSet:
		if w.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
			return false, "", nil
		}
		wanted, there, ready = 1, w.Status.Replicas, w.Status.ReadyReplicas
		if w.Spec.Replicas != nil {
			wanted = *w.Spec.Replicas
		}
		observed = w.Status.ObservedGeneration >= w.Generation
	case *appsv1.DaemonSet:
		if w.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
			return false, "", nil
		}
		wanted, there, ready = w.Status.DesiredNumberScheduled, w.Status.CurrentNumberScheduled, w.Status.NumberReady
		observed = w.Status.ObservedGeneration >= w.Generation
	default:
		return false, "", nil
	}
	if observed && there == wanted && ready == wanted {
		return true, "", nil
	}
	return false, fmt.Sprintf("%s has %d of %d Pods, %d ready", o, there, wanted, ready), nil
}

// Image gives containers of a workload other images.
type Image struct {
	Rollout
}

// Verb implements Change.
func (*Image) Verb() string { return "set image" }

// Target implements Change.
func (i *Image) Target() []string {
	out := []string{i.Object.String()}
	for _, name := range slices.Sorted(maps.Keys(i.Images)) {
		out = append(out, name+"="+i.Images[name])
	}
	return out
}

// Delete deletes a workload; the garbage collector takes what it owns.
type Delete struct{ Object Object }

// Verb implements Change.
func (*Delete) Verb() string { return "delete" }

// Target implements Change.
func (d *Delete) Target() []string { return []string{d.Object.String()} }

// Begin implements Change.
func (d *Delete) Begin(ctx context.Context, r *Run) error {
	if _, err := d.Object.get(ctx, r); err != nil {
		return err
	}
	return r.Cluster.Client().Discovery().RESTClient().Delete().AbsPath(d.Object.path()).
		SetHeader("Content-Type", runtime.ContentTypeJSON).
		Body([]byte(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}`)).Do(ctx).Error()
}

// Done implements Change: nothing of the workload's Pods is left.
func (d *Delete) Done(ctx context.Context, r *Run) (bool, error) {
	all, err := r.Cluster.Client().CoreV1().Pods(d.Object.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for i := range all.Items {
		if OwnerOf(&all.Items[i]) == d.Object.String() {
			return false, nil
		}
	}
	return r.allReady(), nil
}
