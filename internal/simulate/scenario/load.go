package scenario

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/internal/simulate/usage"
)

// LoadTarget is a workload and how its load changes.
type LoadTarget struct {
	Object Object
	Change usage.Change
}

// ParseLoad reads deployment/web=+50%.
func ParseLoad(arg, namespace string) (LoadTarget, error) {
	name, change, ok := strings.Cut(arg, "=")
	if !ok {
		return LoadTarget{}, fmt.Errorf("%q: write deployment/NAME=+50%%", arg)
	}
	o, err := ParseObject(name, namespace)
	if err != nil {
		return LoadTarget{}, err
	}
	c, err := usage.Parse(change)
	return LoadTarget{o, c}, err
}

// Load changes what the Pods of workloads take; autoscalers, quotas, the scheduler and the nodes'
// kubelets answer.
type Load struct {
	Targets []LoadTarget

	loads []*targetLoad
}

// targetLoad is one target while a run goes on.
type targetLoad struct {
	LoadTarget
	loaded   usage.Loaded
	capacity *capacityRecorder
}

// loadRest is how long nothing must have come, gone or become ready for the answers to be over: an
// autoscaler waits five minutes before it takes Pods away.
const loadRest = 6 * time.Minute

// Verb implements Change.
func (*Load) Verb() string { return "load" }

// Target implements Change.
func (l *Load) Target() []string {
	var out []string
	for _, t := range l.Targets {
		out = append(out, t.Object.String()+"="+t.Change.Text)
	}
	return out
}

// check wants each workload once.
func (l *Load) check() error {
	for i, t := range l.Targets {
		if slices.ContainsFunc(l.Targets[:i], func(x LoadTarget) bool { return x.Object == t.Object }) {
			return fmt.Errorf("%s is named twice: give it one change", t.Object)
		}
	}
	return nil
}

// Begin implements Change.
func (l *Load) Begin(ctx context.Context, r *Run) error {
	l.loads = nil
	if err := l.check(); err != nil {
		return err
	}
	for _, t := range l.Targets {
		live, err := t.Object.get(ctx, r)
		if err != nil {
			return err
		}
		x := &targetLoad{LoadTarget: t, capacity: &capacityRecorder{cluster: r.Cluster, began: r.began,
			object: t.Object}}
		if err := x.capacity.begin(ctx, r, live); err != nil {
			return err
		}
		r.Cluster.Watch(x.capacity.changed)
		x.loaded = r.Cluster.Load(t.Object.ownerKey(), t.Change)
		if x.loaded.Pods == 0 {
			return fmt.Errorf("no Pod of %s is ready, so that nothing tells its load", t.Object)
		}
		if x.loaded.Assumed {
			instead := "their requests are taken for it"
			if x.loaded.Learnt {
				instead = "of CPU their requests are taken for it, of memory the most that Pods took which have " +
					"ended, as the journal tells"
			}
			r.Forecast.Notes = append(r.Forecast.Notes, fmt.Sprintf("neither a metrics API nor a kubelet tells what "+
				"the Pods of %s take: %s", t.Object, instead))
		}
		l.loads = append(l.loads, x)
	}
	return nil
}

// ownerKey is behavior.OwnerKey of the workload's Pods.
func (o Object) ownerKey() string { return o.Namespace + "/" + o.Kind + "/" + o.Name }

// Done implements Change: all Pods are ready, and nothing has happened for loadRest.
func (l *Load) Done(_ context.Context, r *Run) (bool, error) {
	r.Forecast.Outcome.Why = ""
	ready := r.allReady()
	for _, x := range l.loads {
		if m := x.now(); m.Ready < m.Total {
			ready = false
			r.Forecast.Outcome.Why = fmt.Sprintf("%s has %d of %d Pods ready", x.Object, m.Ready, m.Total)
		}
	}
	return ready && r.Since() >= loadRest && r.Since()-l.last(r) >= loadRest, nil
}

// last is when the answers were over, as far as is known.
func (l *Load) last(r *Run) time.Duration {
	last := r.pods.last
	for _, x := range l.loads {
		if len(x.capacity.moments) > 1 {
			last = max(last, x.now().At)
		}
	}
	return last
}

// now is how many Pods there are.
func (x *targetLoad) now() forecast.Capacity { return x.capacity.moments[len(x.capacity.moments)-1] }

// conclude implements concluder: what came of the load, and who reached a bound.
func (l *Load) conclude(ctx context.Context, r *Run) error {
	f := r.Forecast
	if f.Outcome.Done {
		f.Outcome.Took = l.last(r)
	}
	all, err := r.Cluster.Client().AutoscalingV2().HorizontalPodAutoscalers(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := r.Cluster.Client().CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, x := range l.loads {
		var own []*corev1.Pod
		for i := range pods.Items {
			if behavior.OwnerKey(&pods.Items[i]) == x.Object.ownerKey() {
				own = append(own, &pods.Items[i])
			}
		}
		line := x.line(own)
		f.Pending = append(f.Pending, x.limits(r, own)...)
		h := autoscalerOf(all.Items, x.Object)
		if h == nil {
			f.Notes = append(f.Notes, fmt.Sprintf("no autoscaler scales %s", x.Object))
		} else {
			line.Autoscaler = h.Name
			f.Pending = append(f.Pending, bounded(h)...)
		}
		f.Loads = append(f.Loads, line)
	}
	if len(l.loads) == 1 && len(l.loads[0].capacity.moments) > 1 {
		f.Capacity, f.Outcome.Least = l.loads[0].capacity.moments, l.loads[0].capacity.least()
	}
	return nil
}

func (x *targetLoad) line(pods []*corev1.Pod) forecast.Load {
	m := x.now()
	return forecast.Load{Namespace: x.Object.Namespace, CPUTaken: x.taken(pods), Object: x.Object.String(),
		Measured: !x.loaded.Assumed, CPUBefore: x.loaded.Before.CPU,
		CPU: x.loaded.After.CPU, MemoryBefore: x.loaded.Before.Memory, Memory: x.loaded.After.Memory,
		PodsBefore: int32(x.loaded.Pods), Pods: m.Total, Ready: m.Ready}
}

// taken is what of the load's cores the ready Pods take within their limits, in thousandths.
func (x *targetLoad) taken(pods []*corev1.Pod) int64 {
	ready, out := max(int64(x.now().Ready), 1), x.loaded.After.CPU
	if len(pods) == 0 {
		return out
	}
	for i := range pods[0].Spec.Containers {
		c := &pods[0].Spec.Containers[i]
		if limit := c.Resources.Limits.Cpu().MilliValue() * ready; limit > 0 {
			out -= max(x.loaded.Containers[c.Name].CPU-limit, 0)
		}
	}
	return out
}

// autoscalerOf is the autoscaler that scales a workload; nil: none does.
func autoscalerOf(all []autoscalingv2.HorizontalPodAutoscaler, o Object) *autoscalingv2.HorizontalPodAutoscaler {
	i := slices.IndexFunc(all, func(h autoscalingv2.HorizontalPodAutoscaler) bool {
		return h.Namespace == o.Namespace && h.Spec.ScaleTargetRef.Kind == o.Kind &&
			h.Spec.ScaleTargetRef.Name == o.Name
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// bounded says that an autoscaler wants more Pods than it may have, or cannot decide.
func bounded(h *autoscalingv2.HorizontalPodAutoscaler) []forecast.Pending {
	var out []forecast.Pending
	for _, c := range h.Status.Conditions {
		p := forecast.Pending{Object: "horizontalpodautoscaler/" + h.Name, Cause: c.Message}
		switch {
		case c.Type == autoscalingv2.ScalingLimited && c.Status == corev1.ConditionTrue &&
			c.Reason == "TooManyReplicas":
			p.Fixes = []string{fmt.Sprintf("let it have %d Pods; kubectl -n %s patch hpa %s -p "+
				`'{"spec":{"maxReplicas":%d}}'`, wanted(h), h.Namespace, h.Name, wanted(h))}
		case c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse &&
			c.Reason != "ScalingDisabled":
			p.Fixes = []string{"serve metrics.k8s.io, and give the containers requests of what it scales by"}
		default:
			continue
		}
		out = append(out, p)
	}
	return out
}

// wanted is how many Pods bring each figure to its target, by the figures of the last decision; one
// more than the most where none tells.
func wanted(h *autoscalingv2.HorizontalPodAutoscaler) int32 {
	most := h.Spec.MaxReplicas + 1
	for _, spec := range h.Spec.Metrics {
		if spec.Resource == nil {
			continue
		}
		for _, m := range h.Status.CurrentMetrics {
			if m.Resource == nil || m.Resource.Name != spec.Resource.Name {
				continue
			}
			ratio := 0.0
			if t, now := spec.Resource.Target, m.Resource.Current; t.AverageUtilization != nil &&
				now.AverageUtilization != nil {
				ratio = float64(*now.AverageUtilization) / float64(*t.AverageUtilization)
			} else if t.AverageValue != nil && now.AverageValue != nil && t.AverageValue.Sign() > 0 {
				ratio = float64(now.AverageValue.MilliValue()) / float64(t.AverageValue.MilliValue())
			}
			if n := math.Ceil(ratio * float64(h.Status.CurrentReplicas)); n < math.MaxInt32 {
				most = max(most, int32(n))
			}
		}
	}
	return most
}

// limits says which containers need more than their limits give.
func (x *targetLoad) limits(r *Run, pods []*corev1.Pod) []forecast.Pending {
	var out []forecast.Pending
	ready := max(int64(x.now().Ready), 1)
	if len(pods) == 0 {
		return nil
	}
	for i := range pods[0].Spec.Containers {
		c := &pods[0].Spec.Containers[i]
		each := x.loaded.Containers[c.Name]
		kills := 0
		for _, p := range pods {
			kills += r.Cluster.KilledOutOfMemory(p.Namespace+"/"+p.Name, c.Name)
		}
		name := fmt.Sprintf("%s, container %s", x.Object, c.Name)
		if kills > 0 {
			need := resource.NewQuantity(each.Memory/int64(x.loaded.Pods), resource.BinarySI)
			out = append(out, forecast.Pending{Object: name, Cause: fmt.Sprintf("killed %d times (OOMKilled): it "+
				"takes more memory than its limit of %s", kills, c.Resources.Limits.Memory()),
				Fixes: []string{fmt.Sprintf("raise limits.memory above %s, or have more Pods", need)}})
		}
		limit := c.Resources.Limits.Cpu().MilliValue()
		if limit > 0 && each.CPU/ready > limit {
			out = append(out, forecast.Pending{Object: name, Cause: fmt.Sprintf("throttled: it would take %dm of "+
				"cores in each Pod, its limit is %dm", each.CPU/ready, limit), Fixes: []string{
				"raise limits.cpu, or have more Pods"}})
		}
	}
	return out
}
