package snapshot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/wrappers"
)

func node(name, zone string) *v1.Node {
	n := wrappers.MakeNode().Name(name).
		Allocatable(map[v1.ResourceName]string{v1.ResourceCPU: "4", v1.ResourcePods: "10"})
	if zone != "" {
		n.Label(v1.LabelTopologyZone, zone)
	}
	return n.Obj()
}

func pod(name, node, cpu string) *v1.Pod {
	return wrappers.MakePod().Namespace("ns").Name(name).UID(name).Node(node).
		Containers(v1.Container{
			Ports:     []v1.ContainerPort{{HostPort: 80}},
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}).
		Claims(name).Obj()
}

func antiAffine(p *v1.Pod, key string) *v1.Pod {
	p.Spec.Affinity = &v1.Affinity{
		PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: key, LabelSelector: &metav1.LabelSelector{}}}}}
	return p
}

// show prints all that a snapshot holds.
func show(s *snapshot.Snapshot) string {
	var b strings.Builder
	for _, n := range s.All() {
		if n.Node() == nil {
			b.WriteString("a node that is gone\n")
			continue
		}
		fmt.Fprintf(&b, "%s cpu=%d/%d non0=%d pods=[", n.Node().Name, n.GetRequested().GetMilliCPU(),
			n.GetAllocatable().GetMilliCPU(), n.GetNonZeroRequested().GetMemory())
		for _, p := range n.GetPods() {
			b.WriteString(p.GetPod().Name + " ")
		}
		fmt.Fprintf(&b, "] ports=%d claims=%v affine=%d anti=%d wide=%d\n", n.GetUsedPorts().Len(), n.GetPVCRefCounts(),
			len(n.GetPodsWithAffinity()), len(n.GetPodsWithRequiredAntiAffinity()),
			len(n.GetPodsWithRequiredNonHostScopedAntiAffinity()))
	}
	lists := [][]framework.NodeInfo{}
	for _, f := range []func() ([]framework.NodeInfo, error){s.HavePodsWithAffinityList,
		s.HavePodsWithRequiredAntiAffinityList, s.HavePodsWithRequiredNonHostScopedAntiAffinityList} {
		l, _ := f()
		lists = append(lists, l)
	}
	fmt.Fprintf(&b, "%d %d %d\n", len(lists[0]), len(lists[1]), len(lists[2]))
	return b.String()
}

// row: SCH-26
func TestASnapshotNeverChanges(t *testing.T) {
	w := snapshot.NewCache()
	w.SetNode(node("a", ""))
	w.SetPod(pod("p", "a", "1"))
	s := w.UpdateSnapshot()
	before := show(s)
	w.SetPod(antiAffine(pod("q", "a", "1"), "zone"))
	w.RemovePod("p")
	if got := show(s); got != before {
		t.Fatalf("with its Pods it changed from\n%s to\n%s", before, got)
	}
	w.SetNode(node("b", ""))
	w.RemoveNode("a")
	if got := show(s); got != before {
		t.Errorf("changed from\n%s to\n%s", before, got)
	}
	if got := show(w.UpdateSnapshot()); !strings.HasPrefix(got, "b cpu=0/4000") {
		t.Errorf("the next one: got %s, want it to begin with %q", got, "b cpu=0/4000")
	}
	if first, second := w.UpdateSnapshot(), w.UpdateSnapshot(); first != second {
		t.Errorf("without a change the same snapshot is given: got %v, want %v", first, second)
	}
}

// However the cache came about, a snapshot of it equals one built from its objects.
func TestIncrementalEqualsAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := snapshot.NewCache()
		nodes, pods := map[string]*v1.Node{}, map[string]*v1.Pod{}
		name := func(t *rapid.T, kind string) string {
			return fmt.Sprintf("%s%d", kind, rapid.IntRange(0, 4).Draw(t, kind))
		}
		t.Repeat(map[string]func(*rapid.T){
			"node": func(t *rapid.T) {
				n := node(name(t, "n"), "")
				nodes[n.Name] = n
				w.SetNode(n)
			},
			"node gone": func(t *rapid.T) {
				n := name(t, "n")
				delete(nodes, n)
				w.RemoveNode(n)
			},
			"pod": func(t *rapid.T) {
				p := pod(name(t, "p"), name(t, "n"), "1")
				if rapid.Bool().Draw(t, "anti-affine") {
					antiAffine(p, v1.LabelHostname)
				}
				pods[p.Name] = p
				w.SetPod(p)
			},
			"assumed and forgotten": func(t *rapid.T) {
				p := pod("assumed", "", "1")
				if err := w.AssumePod(p, name(t, "n")); err != nil {
					t.Fatal(err)
				}
				w.UpdateSnapshot()
				w.ForgetPod(p.UID)
			},
			"pod gone": func(t *rapid.T) {
				p := name(t, "p")
				delete(pods, p)
				w.RemovePod(types.UID(p))
			},
			"": func(t *rapid.T) {
				var ns []*v1.Node
				var ps []*v1.Pod
				for i := range 5 {
					if n := nodes[fmt.Sprintf("n%d", i)]; n != nil {
						ns = append(ns, n)
					}
					if p := pods[fmt.Sprintf("p%d", i)]; p != nil {
						ps = append(ps, p)
					}
				}
				if got, want := sorted(show(w.UpdateSnapshot())), sorted(show(snapshot.Of(ns, ps))); got != want {
					t.Fatalf("incremental:\n%s\nanew:\n%s", got, want)
				}
			},
		})
	})
}

// sorted makes the order of nodes and of Pods on them no matter.
func sorted(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		words := strings.Fields(strings.NewReplacer("[", "[ ", "]", " ]").Replace(l))
		if len(words) > 2 {
			sortStrings(words[1:])
		}
		lines[i] = strings.Join(words, " ")
	}
	sortStrings(lines)
	return strings.Join(lines, "\n")
}

func sortStrings(s []string) {
	for i := range s {
		for j := i; j > 0 && s[j] < s[j-1]; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
}

func TestAssumedPods(t *testing.T) {
	w := snapshot.NewCache()
	w.SetNode(node("a", ""))
	w.SetNode(node("b", ""))
	p := pod("p", "", "1")
	if err := w.AssumePod(p, "a"); err != nil || !w.IsAssumedPod("p") {
		t.Fatalf("got %v, want no error and IsAssumedPod true", err)
	}
	if err := w.AssumePod(p, "b"); err == nil || err.Error() != "Pod ns/p already stands on a" {
		t.Errorf("assumed twice: %v", err)
	}
	w.SetPod(pod("p", "b", "1")) // another scheduler was faster
	if _, on := w.Pod("p"); on != "b" || w.IsAssumedPod("p") {
		t.Errorf("stands on %s", on)
	}
	w.ForgetPod("p")
	if _, on := w.Pod("p"); on != "b" {
		t.Errorf("a confirmed Pod was forgotten: got %q, want \"b\"", on)
	}
	ended := pod("p", "b", "1")
	ended.Status.Phase = v1.PodSucceeded
	w.SetPod(ended)
	if nodes, pods, _ := w.Counts(); nodes != 2 || pods != 0 {
		t.Errorf("%d nodes, %d Pods after the Pod ended", nodes, pods)
	}
}

func TestNodesAlternateBetweenZones(t *testing.T) {
	s := snapshot.Of([]*v1.Node{node("a1", "a"), node("a2", "a"), node("a3", "a"), node("b1", "b"), node("c1", "c"),
		node("c2", "c")}, nil)
	var got []string
	for _, n := range s.All() {
		got = append(got, n.Node().Name)
	}
	if want := "a1 b1 c1 a2 c2 a3"; strings.Join(got, " ") != want {
		t.Errorf("order %v, want %s", got, want)
	}
}

func TestAddAndRemovePodOfASnapshot(t *testing.T) {
	s := snapshot.Of([]*v1.Node{node("a", ""), node("b", "")}, []*v1.Pod{pod("p", "a", "1")})
	before := show(s)
	info, err := snapshot.NewPodInfo(antiAffine(pod("q", "", "2"), v1.LabelHostname))
	if err != nil {
		t.Fatal(err)
	}
	with, err := s.WithPod(info, "b")
	if err != nil {
		t.Fatal(err)
	}
	without, err := with.WithoutPod(pod("p", "a", "1"), "a")
	if err != nil {
		t.Fatal(err)
	}
	big := node("c", "")
	big.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("64")
	last := without.Without("a").WithNode(big)
	if want := "b cpu=2000/4000 non0=209715200 pods=[q ] ports=1 claims=map[ns/q:1] affine=1 anti=1 wide=0\nc " +
		"cpu=0/64000 non0=0 pods=[] ports=0 claims=map[] affine=0 anti=0 wide=0\n1 1 0\n"; show(last) != want {
		t.Errorf("got\n%swant\n%s", show(last), want)
	}
	if show(s) != before {
		t.Error("an edit changed the snapshot it was made from")
	}
	if _, err := s.WithPod(info, "z"); err == nil {
		t.Error("a Pod on a node that is not there")
	}
	if got, want := []bool{
		s.IsPVCUsedByPods("ns/p"), without.IsPVCUsedByPods("ns/p"),
	}, []bool{true, false}; !slices.Equal(got, want) {
		t.Errorf("claims do not follow Pods: got %v, want %v", got, want)
	}
}

// The API's word that an assumed Pod is where it was assumed to be changes nothing, so that no
// plugin is asked again; any difference does.
func TestAConfirmedAssumptionChangesNoNode(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *v1.Pod)
		same   bool
	}{
		"as assumed":       {func(*v1.Pod) {}, true},
		"other labels":     {func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }, false},
		"other annotation": {func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} }, false},
		"another spec":     {func(p *v1.Pod) { p.Spec = *p.Spec.DeepCopy() }, false},
		"being deleted":    {func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, false},
		"another node":     {func(p *v1.Pod) { p.Spec.NodeName = "n2" }, false},
	} {
		w := snapshot.NewCache()
		w.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		w.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
		assumed := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"},
			Spec: v1.PodSpec{NodeName: "n1", Containers: []v1.Container{{Name: "c"}}}}
		if err := w.AssumePod(assumed, "n1"); err != nil {
			t.Fatal(err)
		}
		before := w.UpdateSnapshot()
		said := *assumed
		c.change(&said)
		w.SetPod(&said)
		if w.IsAssumedPod("p") {
			t.Errorf("%s: still assumed", name)
		}
		if same := w.UpdateSnapshot() == before; same != c.same {
			t.Errorf("%s: the snapshot is the same: got %v, want %v", name, same, c.same)
		}
		if p, node := w.Pod("p"); node != said.Spec.NodeName || !c.same && p != &said {
			t.Errorf("%s: on %s", name, node)
		}
	}
}
