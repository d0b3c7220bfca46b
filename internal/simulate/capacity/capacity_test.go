package capacity

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func node(name, cpu, memory string) *v1.Node {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory),
		v1.ResourcePods: resource.MustParse("110")}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{Capacity: list, Allocatable: list}}
}

func sized(cpu, memory string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: v1.PodSpec{
		SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{Name: "c",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu),
				v1.ResourceMemory: resource.MustParse(memory)}}}}}}
}

// The count is what the nodes hold; what runs out first is the resource that most nodes lack.
func TestCount(t *testing.T) {
	used := sized("1", "1Gi")
	used.Name, used.UID, used.Spec.NodeName = "used", "used", "a"
	objects := []runtime.Object{node("a", "4", "64Gi"), node("b", "4", "64Gi"), node("c", "16", "4Gi"), used}
	got, err := Count(t.Context(), In{Objects: objects, Pod: sized("500m", "1Gi")})
	if err != nil {
		t.Fatal(err)
	}
	if got.Fits != 6+8+4 || got.Limited || got.Nodes != 3 {
		t.Errorf("got %+v, want 6 on a, 8 on b and 4 on c", got)
	}
	if len(got.RunsOut) != 2 || got.RunsOut[0] != (Cause{"cpu", 2}) || got.RunsOut[1] != (Cause{"memory", 1}) {
		t.Errorf("runs out: %+v", got.RunsOut)
	}
	if got.Shapes[0].Allocatable != "4 cpu, 64Gi memory" || got.Shapes[0].PerNode != 7 {
		t.Errorf("shapes: %+v", got.Shapes)
	}
	got, err = Count(t.Context(), In{Objects: objects, Pod: sized("500m", "1Gi"), Limit: 5})
	if err != nil || got.Fits != 5 || !got.Limited {
		t.Errorf("with a limit: %+v, %v", got, err)
	}
}

// Node by node the count is that of the cluster as a whole; with rules between nodes it is not node
// by node.
func TestNodeByNode(t *testing.T) {
	objects := []runtime.Object{node("a", "4", "64Gi"), node("b", "3", "64Gi")}
	p := sized("500m", "1Gi")
	whole, err := Count(t.Context(), In{Objects: objects, Pod: p, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	each, err := Count(t.Context(), In{Objects: objects, Pod: p})
	if err != nil || whole.Fits != 14 || each.Fits != 14 {
		t.Errorf("as a whole %d, node by node %d, error %v, want 14", whole.Fits, each.Fits, err)
	}
	p.Labels = map[string]string{"app": "x"}
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelHostname,
		WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}
	if each, err = Count(t.Context(), In{Objects: objects, Pod: p}); err != nil || each.Fits != 13 {
		t.Errorf("spread with skew 1: %d, error %v, want 6 on b and 7 on a", each.Fits, err)
	}
}

// BenchmarkCount places 10 Pods on each of b.N nodes.
func BenchmarkCount(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var objects []runtime.Object
			for i := range n {
				objects = append(objects, node(fmt.Sprint("node-", i), "4", "64Gi"))
			}
			for b.Loop() {
				began := time.Now()
				got, err := Count(b.Context(), In{Objects: objects, Pod: sized("400m", "1Gi")})
				if err != nil || got.Fits != 10*n {
					b.Fatalf("got %+v and error %v, want %d", got, err, 10*n)
				}
				b.ReportMetric(float64(got.Fits)/time.Since(began).Seconds(), "Pods/s")
			}
		})
	}
}
