package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/trace"
)

// scheduled is one Pod's times in the scheduler, from its journal: from the client's call to the
// queue, the attempt, and from the queue to the acknowledged binding.
type scheduled struct{ queued, decided, bound time.Duration }

func scheduledOf(l trace.PodTrace, called time.Time) (scheduled, error) {
	queued, a := first(l, func(f journal.Fact) bool { q, ok := f.(journal.Queued); return ok && q.Queue == "active" })
	ruled, b := last(l, func(f journal.Fact) bool { _, ok := f.(journal.Ruled); return ok })
	bound, c := first(l, func(f journal.Fact) bool { _, ok := f.(journal.Bound); return ok })
	if !a || !b || !c {
		return scheduled{}, fmt.Errorf("the journal of pod/%s does not say how it was scheduled", l.Ref.Name)
	}
	return scheduled{queued.At.Sub(called), time.Duration(ruled.Fact.(journal.Ruled).Took),
		bound.At.Sub(queued.At)}, nil
}

// latencies measures four figures that Kubernetes' documents state of a healthy cluster; the page
// has their bounds. Pods are made one by one on one node; the journal has when each stood in the
// scheduler's queue, how long the decision took and when the binding was acknowledged. For the last
// figure a client closes a Pod's readiness gate and waits until the Service's EndpointSlice says
// that the endpoint is not ready, kubelet and controller in between.
func (b *bench) latencies(ctx context.Context) ([]result.Figure, error) {
	n, err := b.newNode(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer n.remove(b)
	var queued, decided, bound []time.Duration
	for k := range b.times(100) {
		s, err := n.schedule(ctx, fmt.Sprintf("latency-%d", k))
		if err != nil {
			return nil, err
		}
		queued, decided, bound = append(queued, s.queued), append(decided, s.decided), append(bound, s.bound)
	}
	left, err := n.departures(ctx, b.times(50))
	return []result.Figure{
		result.Durations("create → queued", queued), result.Durations("decision", decided),
		result.Durations("queued → bound", bound), result.Durations("not ready → EndpointSlice", left),
	}, err
}

// schedule runs a Pod and returns its times in the scheduler.
func (n *nodeBench) schedule(ctx context.Context, name string) (scheduled, error) {
	called := time.Now()
	if err := n.create(ctx, sleeper(name)); err != nil {
		return scheduled{}, err
	}
	if err := n.seen.all(ctx, []string{name}, running); err != nil {
		return scheduled{}, err
	}
	l, err := n.lifeOf(ctx, name)
	if err != nil {
		return scheduled{}, err
	}
	s, err := scheduledOf(l, called)
	if err != nil {
		return scheduled{}, err
	}
	if err := n.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return scheduled{}, err
	}
	return s, n.seen.all(ctx, []string{name}, gone)
}

const gate = "bench.gantry.dev/open"

// departures closes and opens the readiness gate of a Service's Pod and returns how long each
// closing took to reach the EndpointSlice.
func (n *nodeBench) departures(ctx context.Context, many int) ([]time.Duration, error) {
	p := sleeper("gated")
	p.Labels = map[string]string{"app": "gated"}
	p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: gate}}
	svc := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "gated", Namespace: "default"},
		Spec: v1.ServiceSpec{Selector: p.Labels,
			Ports: []v1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}},
	}
	if _, err := n.client.CoreV1().Services("default").Create(ctx, svc, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if err := n.create(ctx, p); err != nil {
		return nil, err
	}
	if err := n.seen.all(ctx, []string{p.Name}, running); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute+time.Duration(many)*10*time.Second)
	defer cancel()
	ofService := metav1.ListOptions{LabelSelector: discovery.LabelServiceName + "=" + svc.Name}
	slices, err := n.client.DiscoveryV1().EndpointSlices("default").Watch(ctx, ofService)
	if err != nil {
		return nil, err
	}
	defer slices.Stop()
	var took []time.Duration
	for range many {
		if err := n.setGate(ctx, p.Name, v1.ConditionTrue); err != nil {
			return nil, err
		}
		if _, err := until(ctx, slices, true); err != nil {
			return nil, err
		}
		called := time.Now()
		if err := n.setGate(ctx, p.Name, v1.ConditionFalse); err != nil {
			return nil, err
		}
		at, err := until(ctx, slices, false)
		if err != nil {
			return nil, err
		}
		took = append(took, at.Sub(called))
	}
	return took, nil
}

// setGate opens or closes a Pod's readiness gate.
func (n *nodeBench) setGate(ctx context.Context, pod string, to v1.ConditionStatus) error {
	condition := map[string]any{"type": gate, "status": to}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		return err
	}
	pods := n.client.CoreV1().Pods("default")
	_, err = pods.Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// until waits for a slice with one endpoint that is ready, or not, and returns when it arrived.
func until(ctx context.Context, slices watch.Interface, ready bool) (time.Time, error) {
	for {
		select {
		case e, ok := <-slices.ResultChan():
			if !ok {
				return time.Time{}, fmt.Errorf("the watch of slices was ended")
			}
			s, ok := e.Object.(*discovery.EndpointSlice)
			if !ok || len(s.Endpoints) != 1 {
				continue
			}
			if is := s.Endpoints[0].Conditions.Ready; is != nil && *is == ready {
				return time.Now(), nil
			}
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("no slice says ready=%t: %w", ready, ctx.Err())
		}
	}
}
