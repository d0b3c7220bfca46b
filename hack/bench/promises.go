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

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/trace"
)

// promise is a figure that the documents state of a healthy cluster, and what was measured of it.
type promise struct {
	what  string
	under time.Duration
	took  []time.Duration
}

// row is the promise's line, with whether it was kept. What was not measured is not kept.
func (p promise) row() []string {
	p99 := quantile(p.took, 0.99)
	kept := "pass"
	if len(p.took) == 0 || p99 >= p.under {
		kept = "fail"
	}
	return []string{p.what, fmt.Sprint(len(p.took)), ms(quantile(p.took, 0.5)), ms(p99), ms(p.under), kept}
}

// noticing is what one Pod's journal tells of its way through the scheduler: from the client's call to its place in the queue,
// the decision, and from the queue to the acknowledged binding.
type noticing struct{ noticed, decided, bound time.Duration }

func noticingOf(l trace.Life, asked time.Time) (noticing, error) {
	queued, a := first(l, func(f journal.Fact) bool { q, ok := f.(journal.Queued); return ok && q.Queue == "active" })
	ruled, b := last(l, func(f journal.Fact) bool { _, ok := f.(journal.Ruled); return ok })
	bound, c := first(l, func(f journal.Fact) bool { _, ok := f.(journal.Bound); return ok })
	if !a || !b || !c {
		return noticing{}, fmt.Errorf("the journal of pod/%s does not tell how it was scheduled", l.Ref.Name)
	}
	return noticing{queued.At.Sub(asked), time.Duration(ruled.Fact.(journal.Ruled).Took), bound.At.Sub(queued.At)}, nil
}

// promises measures the four figures that the documents state of a healthy cluster, and says of each whether it is kept.
func (b *bench) promises(ctx context.Context) error {
	n, err := b.newNode(ctx, nil)
	if err != nil {
		return err
	}
	defer n.remove(b)
	noticed := promise{what: "a new Pod stands in the scheduler's queue, from the call", under: 50 * time.Millisecond}
	decided := promise{what: "the scheduler's decision", under: 100 * time.Millisecond}
	bound := promise{what: "queue → bound", under: 200 * time.Millisecond}
	for k := range b.times(100) {
		name := fmt.Sprintf("noticed-%d", k)
		asked := time.Now()
		if err := n.create(ctx, sleeper(name)); err != nil {
			return err
		}
		if err := n.seen.all(ctx, []string{name}, running); err != nil {
			return err
		}
		l, err := n.told(ctx, name)
		if err != nil {
			return err
		}
		one, err := noticingOf(l, asked)
		if err != nil {
			return err
		}
		noticed.took, decided.took, bound.took = append(noticed.took, one.noticed), append(decided.took, one.decided), append(bound.took, one.bound)
		if err := n.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := n.seen.all(ctx, []string{name}, gone); err != nil {
			return err
		}
	}
	left := promise{what: "an endpoint that is not ready leaves its Service, from the call that says so", under: time.Second}
	if left.took, err = n.departures(ctx, b.times(50)); err != nil {
		return err
	}
	var rows [][]string
	for _, p := range []promise{noticed, decided, bound, left} {
		rows = append(rows, p.row())
	}
	b.page.add(section{
		Title: "What the documents promise",
		How: "Four figures that the documents state of a healthy cluster: from `kubectl run` to the scheduler's notice under 50 ms, tens of milliseconds for a decision, 200 ms of scheduling latency at p99, traffic away from a Pod that is not ready in under a second. " +
			"Pods are made one by one on one node; the journal tells when each stood in the scheduler's queue, how long the decision took and when the binding was acknowledged. " +
			"For the last a client closes a Pod's readiness gate and waits until the Service's EndpointSlice says that the endpoint is not ready, kubelet and controller in between; from there to the kernel's rules it is the change measured above.",
		Head:   []string{"Promise", "times", "p50, ms", "p99, ms", "under, ms", "at p99"},
		Rows:   rows,
		Budget: "all four pass",
	})
	return nil
}

const gate = "bench.gantry.dev/open"

// departures closes and opens the readiness gate of a Pod behind a Service and returns how long each closing took to reach the slice.
func (n *nodeBench) departures(ctx context.Context, many int) ([]time.Duration, error) {
	p := sleeper("gated")
	p.Labels = map[string]string{"app": "gated"}
	p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: gate}}
	svc := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "gated", Namespace: "default"},
		Spec:       v1.ServiceSpec{Selector: p.Labels, Ports: []v1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}},
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
	slices, err := n.client.DiscoveryV1().EndpointSlices("default").Watch(ctx, metav1.ListOptions{LabelSelector: discovery.LabelServiceName + "=" + svc.Name})
	if err != nil {
		return nil, err
	}
	defer slices.Stop()
	var took []time.Duration
	for range many {
		if err := n.turn(ctx, p.Name, v1.ConditionTrue); err != nil {
			return nil, err
		}
		if _, err := until(ctx, slices, true); err != nil {
			return nil, err
		}
		asked := time.Now()
		if err := n.turn(ctx, p.Name, v1.ConditionFalse); err != nil {
			return nil, err
		}
		at, err := until(ctx, slices, false)
		if err != nil {
			return nil, err
		}
		took = append(took, at.Sub(asked))
	}
	return took, nil
}

// turn opens or closes a Pod's readiness gate.
func (n *nodeBench) turn(ctx context.Context, pod string, to v1.ConditionStatus) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": gate, "status": to}}}})
	if err != nil {
		return err
	}
	_, err = n.client.CoreV1().Pods("default").Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// until waits for a slice with one endpoint that is ready, or is not, and returns when it came.
func until(ctx context.Context, slices watch.Interface, ready bool) (time.Time, error) {
	for {
		select {
		case e, ok := <-slices.ResultChan():
			if !ok {
				return time.Time{}, fmt.Errorf("the watch of slices was ended")
			}
			s, ok := e.Object.(*discovery.EndpointSlice)
			if ok && len(s.Endpoints) == 1 && s.Endpoints[0].Conditions.Ready != nil && *s.Endpoints[0].Conditions.Ready == ready {
				return time.Now(), nil
			}
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("no slice says ready=%t: %w", ready, ctx.Err())
		}
	}
}
