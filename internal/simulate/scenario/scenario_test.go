package scenario

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func nodes(cpus ...string) []runtime.Object {
	var out []runtime.Object
	for i, cpu := range cpus {
		out = append(out, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i),
			Labels: map[string]string{corev1.LabelTopologyZone: fmt.Sprint("z", i%2)}},
			Status: corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
				corev1.ResourceMemory: resource.MustParse("64Gi")}}})
	}
	return out
}

func template(name, cpu string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "app:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu)}}}}}}
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func deployment(name string, replicas int32, cpu string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(name), Template: template(name, cpu)}}
}

func budget(name string, least int) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt(least)), Selector: selector(name)}}
}

func input(objects ...runtime.Object) Input {
	return Input{Objects: objects, Start: start, Model: behavior.Model{Default: behavior.Assumed()}}
}

func simulate(t *testing.T, in Input, change func() Change) *forecast.Forecast {
	t.Helper()
	f, err := Simulate(t.Context(), in, change, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A drain evicts what is on the node, and each Pod comes again elsewhere.
//
// row: TOO-06
func TestDrainTellsWhereEachPodGoes(t *testing.T) {
	in := input(append(nodes("4", "4", "8"), deployment("web", 6, "500m"))...)
	f := simulate(t, in, func() Change { return &Drain{Nodes: []string{"n2"}} })
	if !f.Outcome.Done || len(f.Pods) == 0 {
		t.Fatalf("outcome %+v, %d Pods", f.Outcome, len(f.Pods))
	}
	left, came := 0, 0
	for _, p := range f.Pods {
		switch {
		case p.Created == nil:
			left++
			if p.Node != "n2" || p.Cause != "evicted" || p.Gone == nil || *p.Gone != time.Second {
				t.Errorf("leaves: got %+v, want Node n2 and Cause evicted and Gone set and Gone %v", p, time.Second)
			}
		default:
			came++
			if p.Node == "n2" || p.Node == "" || p.Ready == nil || p.Replaces == "" {
				t.Errorf("comes: %+v", p)
			}
		}
	}
	if left == 0 || left != came {
		t.Errorf("%d Pods left and %d came", left, came)
	}
}

// A budget holds a drain up until a replacement is ready; kubectl asks again every five seconds.
func TestBudgetHoldsDrainUp(t *testing.T) {
	in := input(append(nodes("4", "1"), deployment("web", 4, "500m"), budget("web", 3))...)
	f := simulate(t, in, func() Change { return &Drain{Nodes: []string{"n0"}} })
	if len(f.Blocked) == 0 {
		t.Fatalf("no eviction was refused: %+v", f.Pods)
	}
	b := f.Blocked[0]
	if b.Budget != "web" || b.From != 0 ||
		!strings.HasPrefix(b.Message, "The disruption budget web needs 3 healthy pods and has") {
		t.Errorf("blocked: %+v", b)
	}
	if b.Until != nil && *b.Until%evictRetry != 0 {
		t.Errorf("let go at %v, want a multiple of %v", *b.Until, evictRetry)
	}
	if f.Outcome.Done { // n1 has room for two of the four
		t.Errorf("done: %+v", f.Outcome)
	}
}

// Who is pushed out by a Pod of higher priority is told.
func TestDrainPushesOutByPriority(t *testing.T) {
	high := deployment("high", 1, "1500m")
	high.Spec.Template.Spec.PriorityClassName = "high"
	high.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "a"}
	low := deployment("low", 1, "1500m")
	low.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "b"}
	all := nodes("2", "2")
	all[0].(*corev1.Node).Labels["pool"], all[1].(*corev1.Node).Labels["pool"] = "a", "b"
	in := input(append(all, high, low, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"},
		Value: 1000})...)
	// the selectors kept them apart; now the high one may go everywhere
	f := simulate(t, in, func() Change { return &relabelAndDrain{Drain{Nodes: []string{"n0"}}} })
	preempted := 0
	for _, p := range f.Pods {
		if p.Cause == "preempted" && p.Owner == "deployment/low" {
			preempted++
		}
	}
	if preempted != 1 {
		t.Errorf("%d Pods were preempted: %+v", preempted, f.Pods)
	}
}

// relabelAndDrain makes n1 one of pool a before the drain.
type relabelAndDrain struct{ Drain }

// Begin implements Change.
func (d *relabelAndDrain) Begin(ctx context.Context, r *Run) error {
	_, err := r.Cluster.Client().CoreV1().Nodes().Patch(ctx, "n1", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pool":"a"}}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return d.Drain.Begin(ctx, r)
}

// row: TOO-06
// Budgets of a rollout hold at every moment, for any numbers.
func TestRolloutKeepsItsBounds(t *testing.T) {
	for _, c := range []struct {
		replicas           int32
		surge, unavailable string
		most, least        int32
	}{
		{10, "25%", "25%", 13, 8}, {10, "0", "1", 10, 9}, {10, "1", "0", 11, 10}, {3, "100%", "0%", 6, 3},
		{7, "3", "2", 10, 5}, {1, "25%", "25%", 2, 1},
	} {
		t.Run(fmt.Sprintf("%d_%s_%s", c.replicas, c.surge, c.unavailable), func(t *testing.T) {
			in := input(append(nodes("16", "16"), deployment("web", c.replicas, "100m"))...)
			surge, unavailable := intstr.Parse(c.surge), intstr.Parse(c.unavailable)
			f := simulate(t, in, func() Change {
				return &Rollout{Object: Object{"Deployment", "default", "web"}, MaxSurge: &surge,
					MaxUnavailable: &unavailable}
			})
			if !f.Outcome.Done {
				t.Fatalf("outcome %+v", f.Outcome)
			}
			for _, m := range f.Capacity {
				if m.Total > c.most || m.Ready < c.least {
					t.Errorf("at %v there are %d Pods, at most %d, and %d ready, at least %d", m.At, m.Total, c.most,
						m.Ready, c.least)
				}
			}
			last := f.Capacity[len(f.Capacity)-1]
			if last.New != c.replicas || last.NewReady != c.replicas || last.Leaving != 0 || last.Total != c.replicas {
				t.Errorf("ends with %+v", last)
			}
		})
	}
}

// row: TOO-06
// The time of a rollout follows from how long Pods take: waves of surge, each as long as a start.
func TestRolloutTakesItsWaves(t *testing.T) {
	in := input(append(nodes("16"), deployment("web", 4, "100m"))...)
	in.Model.Default = behavior.Times{Start: behavior.Fixed(5 * time.Second), Ready: behavior.Fixed(20 * time.Second)}
	one, none := intstr.FromInt(1), intstr.FromInt(0)
	f := simulate(t, in, func() Change {
		return &Rollout{Object: Object{"Deployment", "default", "web"}, MaxSurge: &one, MaxUnavailable: &none}
	})
	if want := 4 * 25 * time.Second; !f.Outcome.Done || f.Outcome.Took != want {
		t.Errorf("took %v (done %t), want four waves of 25 s", f.Outcome.Took, f.Outcome.Done)
	}
}

// row: TOO-06
// A StatefulSet goes one by one from the highest ordinal, a DaemonSet node by node.
func TestRolloutOfOtherKinds(t *testing.T) {
	three := int32(3)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
		Spec: appsv1.StatefulSetSpec{Replicas: &three, Selector: selector("db"), Template: template("db", "100m")}}
	f := simulate(t, input(append(nodes("4"), set)...), func() Change {
		return &Rollout{Object: Object{"StatefulSet", "default", "db"}}
	})
	order := ""
	for _, p := range f.Pods {
		if p.Created == nil {
			order += p.Name + " "
		}
	}
	if !f.Outcome.Done || order != "db-2 db-1 db-0 " || *f.Outcome.Least != 2 {
		t.Errorf("done %t, order %q, least %d", f.Outcome.Done, order, *f.Outcome.Least)
	}
	daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "log"},
		Spec: appsv1.DaemonSetSpec{Selector: selector("log"), Template: template("log", "100m")}}
	f = simulate(t, input(append(nodes("4", "4", "4"), daemons)...), func() Change {
		return &Rollout{Object: Object{"DaemonSet", "default", "log"}}
	})
	if !f.Outcome.Done || *f.Outcome.Least != 2 || f.Capacity[0].Desired != 3 {
		t.Errorf("outcome %+v, least %d", f.Outcome, *f.Outcome.Least)
	}
}

// What cannot be is refused with the name of the field.
func TestBadChangesAreRefused(t *testing.T) {
	minus, zero, one := intstr.FromInt(-1), intstr.FromInt(0), intstr.FromInt(1)
	web := Object{"Deployment", "default", "web"}
	for _, c := range []struct {
		change Change
		want   string
	}{
		{&Rollout{Object: web, MaxSurge: &minus, MaxUnavailable: &one}, "spec.strategy.rollingUpdate.maxSurge"},
		{&Rollout{Object: web, MaxSurge: &zero, MaxUnavailable: &zero}, "spec.strategy.rollingUpdate.maxUnavailable"},
		{&Rollout{Object: Object{"Deployment", "default", "other"}},
			"there is no deployment/other in namespace default"},
		{&Rollout{Object: web, Images: map[string]string{"x": "y"}}, "spec.template.spec.containers"},
		{&Drain{Nodes: []string{"nobody"}}, `there is no node "nobody"; there are: n0`},
		{&Drain{Zone: "z9"}, `there is no node in zone "z9"; zones are: z0`},
		{&Scale{Object: web, Replicas: -3}, "spec.replicas"},
		{&Lose{Nodes: []string{"nobody"}}, `there is no node "nobody"`},
		{&Delete{Object: Object{"Deployment", "default", "other"}}, "there is no deployment/other"},
	} {
		in := input(append(nodes("4"), deployment("web", 1, "100m"))...)
		_, err := Simulate(t.Context(), in, func() Change { return c.change }, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: error %v, want one with %q", c.change.Verb(), c.change.Target(), err, c.want)
		}
	}
}
