package capacity

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/test/wrappers"
)

func node(name, cpu, memory string) *v1.Node {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory),
		v1.ResourcePods: resource.MustParse("110")}
	n := wrappers.MakeNode().Hostname(name).Obj()
	n.Status.Capacity = list
	n.Status.Allocatable = list
	return n
}

func sized(cpu, memory string) *v1.Pod {
	return wrappers.MakePod().Namespace("default").SchedulerName(v1.DefaultSchedulerName).
		Containers(v1.Container{Name: "c",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu),
				v1.ResourceMemory: resource.MustParse(memory)}}}).Obj()
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
		t.Errorf("runs out: got %+v, want 2 of them and [0] %v and [1] %v", got.RunsOut, (Cause{"cpu", 2}),
			(Cause{"memory", 1}))
	}
	if got.Shapes[0].Allocatable != "4 cpu, 64Gi memory" || got.Shapes[0].PerNode != 7 {
		t.Errorf("shapes: got %+v, want [0].Allocatable %q and [0].PerNode 7", got.Shapes, "4 cpu, 64Gi memory")
	}
	got, err = Count(t.Context(), In{Objects: objects, Pod: sized("500m", "1Gi"), Limit: 5})
	if err != nil || got.Fits != 5 || !got.Limited {
		t.Errorf("with a limit: got %+v, %v, want no error and Fits 5 and Limited true", got, err)
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

// apart keeps Pods with labels out of a Pod's zone.
func apart(labels map[string]string) *v1.Affinity {
	return &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelTopologyZone,
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels}}}}}
}

// drawn is a random cluster, and a Pod that asks something of a node by itself.
func drawn(r *rand.Rand) In {
	in := In{Pod: sized(fmt.Sprint(100+100*r.IntN(8), "m"), fmt.Sprint(1+r.IntN(3), "Gi"))}
	in.Pod.Labels = map[string]string{"app": "new"}
	for i := range 1 + r.IntN(8) {
		n := node(fmt.Sprint("n", i), fmt.Sprint(1+r.IntN(4)), fmt.Sprint(1+r.IntN(12), "Gi"))
		n.Labels[v1.LabelTopologyZone] = fmt.Sprint("z", r.IntN(3))
		n.Labels["disk"] = []string{"ssd", "none"}[r.IntN(2)]
		n.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(int64(1+r.IntN(9)), resource.DecimalSI)
		n.Spec.Unschedulable = r.IntN(8) == 0
		if r.IntN(4) == 0 {
			n.Spec.Taints = []v1.Taint{{Key: "for", Value: "others", Effect: v1.TaintEffectNoSchedule}}
		}
		in.Objects = append(in.Objects, n)
		for k := range r.IntN(3) {
			used := sized(fmt.Sprint(50*r.IntN(8), "m"), "100Mi")
			used.Name = fmt.Sprint("used-", i, "-", k)
			used.UID, used.Spec.NodeName = types.UID(used.Name), n.Name
			used.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: int32(80 + k)}}
			if r.IntN(20) == 0 {
				used.Spec.Affinity = apart(map[string]string{"app": []string{"new", "other"}[r.IntN(2)]})
			}
			in.Objects = append(in.Objects, used)
		}
	}
	if r.IntN(3) == 0 {
		in.Pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	}
	if r.IntN(3) == 0 {
		in.Pod.Spec.Tolerations = []v1.Toleration{{Key: "for", Operator: v1.TolerationOpExists}}
	}
	if r.IntN(3) == 0 {
		in.Pod.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: int32(80 + r.IntN(3))}}
	}
	return in
}

// Whatever the nodes, the Pods on them and what the Pod asks of a node: filled node by node, the
// answer is the one that the cluster as a whole gives.
func TestNodeByNodeIsTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 18))
	fits, counted := 0, 0
	for i := range 300 {
		in := drawn(r)
		cluster, set, err := prepare(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, alone := onNodeAlone(t.Context(), set, in.Pod, cluster.cache.UpdateSnapshot()); alone {
			counted++
		}
		each, err := Count(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		perNode, last, err := fill(t.Context(), in, cluster.cache, set)
		if err != nil {
			t.Fatal(err)
		}
		causes := map[string]int{}
		addCauses(causes, last)
		each.Blocking = "" // only the whole says it
		want := Answer{Fits: each.Fits, Nodes: len(cluster.nodes), Shapes: shapesOf(cluster.nodes, perNode),
			RunsOut: causesOf(causes)}
		if !reflect.DeepEqual(each, want) {
			t.Errorf("cluster %d: node by node %+v, as a whole %+v", i, each, want)
		}
		whole := 0
		for _, n := range perNode {
			whole += n
		}
		if whole != each.Fits {
			t.Errorf("cluster %d: %d fit node by node, %d as a whole", i, each.Fits, whole)
		}
		fits += whole
	}
	if fits < 500 || counted < 200 || counted == 300 {
		t.Errorf("%d Pods fit in all, %d clusters of 300 are counted node by node: these do not tell", fits, counted)
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
