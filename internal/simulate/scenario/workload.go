package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	done, message, err := o.rolledOut(ctx, r)
	if err != nil {
		message, err = err.Error(), nil
	}
	r.Forecast.Outcome.Why = ""
	if !done {
		r.Forecast.Outcome.Why = strings.TrimSpace(message)
	}
	return done && r.allReady(), err
}

// Image gives containers of a workload other images.
type Image struct {
	Rollout
}

// Verb implements Change.
func (*Image) Verb() string { return "image" }

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
