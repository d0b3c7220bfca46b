package whatif

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

func node(name, cpu, memory string, more ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory), v1.ResourcePods: resource.MustParse("10")}}}
	for _, f := range more {
		f(n)
	}
	return n
}

func asking(name, cpu, memory string, more ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app",
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}}}}}}
	for _, f := range more {
		f(p)
	}
	return p
}

func on(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }

func judges(t interface {
	Helper()
	Fatal(...any)
}) *place.Judges {
	t.Helper()
	j, err := plugins.Judges(v1.DefaultSchedulerName, nil)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Of several claims one is for one Pod at a time: each is freed by itself, so that Pods that only share another are left alone.
func TestEachClaimIsFreedByItself(t *testing.T) {
	uses := func(claims ...string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			for _, c := range claims {
				p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: c, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
			}
		}
	}
	world := snapshot.Of([]*v1.Node{node("n1", "4", "4Gi"), node("n2", "4", "4Gi")}, []*v1.Pod{
		asking("shares", "1", "1Gi", uses("shared"), on("n1")), asking("has", "1", "1Gi", uses("own"), on("n2")), asking("other", "1", "1Gi", uses("else"), on("n1")),
	})
	var gone []types.UID
	for _, c := range freeClaim(state{pod: asking("waits", "1", "1Gi", uses("shared", "own", "nobodys")), world: world}, journal.NodeRefusal{}) {
		if len(c.gone) != 1 {
			t.Errorf("one change ends %v", c.gone)
		}
		gone = append(gone, c.gone...)
	}
	if !slices.Equal(gone, []types.UID{"shares", "has"}) {
		t.Errorf("ends %v", gone)
	}
}

func TestFindTheSmallestChanges(t *testing.T) {
	taint := func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{{Key: "team", Value: "a", Effect: v1.TaintEffectNoSchedule}}
	}
	cordon := func(n *v1.Node) { n.Spec.Unschedulable = true }
	ssd := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }
	for _, c := range []struct {
		name  string
		pod   *v1.Pod
		nodes []*v1.Node
		pods  []*v1.Pod
		want  []string // a remedy begins with each
		none  bool
	}{
		{"what is short of one resource", asking("p", "2", "1Gi"), []*v1.Node{node("a", "4", "8Gi")}, []*v1.Pod{asking("x", "2500m", "1Gi", on("a")), asking("y", "300m", "1Gi", on("a"))},
			[]string{"lower the cpu request of container app by 800m to 1200m", "remove pod x", "add a node like a"}, false},
		{"two resources at once", asking("p", "2", "4Gi"), []*v1.Node{node("a", "1", "2Gi")}, nil, []string{"lower the cpu request of container app by 1000m to 1000m and lower the memory request of container app by 2Gi to 2Gi"}, false},
		{"the init container decides", asking("p", "100m", "1Gi", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "migrate", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}}}}
		}), []*v1.Node{node("a", "1", "8Gi")}, nil, []string{"lower the cpu request of init container migrate by 2000m to 1000m"}, false},
		{"cordoned", asking("p", "1", "1Gi"), []*v1.Node{node("a", "4", "8Gi", cordon)}, nil, []string{"uncordon a"}, false},
		{"tainted", asking("p", "1", "1Gi"), []*v1.Node{node("a", "4", "8Gi", taint)}, nil, []string{"tolerate team=a:NoSchedule", "take the taint team=a:NoSchedule off a"}, false},
		{"tainted and short: two changes together", asking("p", "6", "1Gi"), []*v1.Node{node("a", "4", "8Gi", taint)}, nil, []string{"tolerate team=a:NoSchedule, and lower the cpu request of container app by 2000m to 4000m"}, false},
		{"a label is missing", asking("p", "1", "1Gi", ssd), []*v1.Node{node("a", "4", "8Gi")}, nil, []string{"label node a disk=ssd", "drop disk=ssd from nodeSelector"}, false},
		{"a host port is taken", asking("p", "1", "1Gi", port), []*v1.Node{node("a", "4", "8Gi")}, []*v1.Pod{asking("x", "1", "1Gi", on("a"), port)}, []string{"remove pod x", "give up the host port"}, false},
		{"it fits", asking("p", "1", "1Gi"), []*v1.Node{node("a", "4", "8Gi")}, nil, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, _ := Find(context.Background(), In{Pod: c.pod, World: snapshot.Of(c.nodes, c.pods), Judges: judges(t)})
			if c.none != (len(found) == 0) {
				t.Fatalf("found %v", found)
			}
			var all []string
			for _, r := range found {
				all = append(all, r.Say)
			}
			for _, want := range c.want {
				if !strings.Contains("\n"+strings.Join(all, "\n"), "\n"+want) {
					t.Errorf("no remedy begins with %q:\n%s", want, strings.Join(all, "\n"))
				}
			}
		})
	}
}

func port(p *v1.Pod) {
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}}
}

// One milli less than the remedy names would not be enough: what is lowered is lowered by no more than must be.
func TestLoweredRequestsAreTheLargestThatFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []*v1.Node
		var pods []*v1.Pod
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			name := fmt.Sprint("n", i)
			nodes = append(nodes, node(name, fmt.Sprintf("%dm", rapid.IntRange(500, 4000).Draw(t, "cpu")), "8Gi"))
			pods = append(pods, asking("on-"+name, fmt.Sprintf("%dm", rapid.IntRange(1, 400).Draw(t, "used")), "1Gi", on(name)))
		}
		p := asking("p", fmt.Sprintf("%dm", rapid.IntRange(4100, 9000).Draw(t, "asked")), "1Gi")
		world := snapshot.Of(nodes, pods)
		best := int64(0)
		for _, n := range world.All() {
			best = max(best, n.GetAllocatable().GetMilliCPU()-n.GetRequested().GetMilliCPU())
		}
		found, _ := Find(context.Background(), In{Pod: p, World: world, Judges: judges(t)})
		for _, r := range found {
			if r.Kind == "request" && strings.Contains(r.Say, fmt.Sprintf("to %dm:", best)) {
				return
			}
		}
		t.Fatalf("no remedy lowers the request to the %dm that are free at most", best)
	})
}

func TestCommandsEditTheOwner(t *testing.T) {
	yes := true
	p := asking("web-5c9-x", "2", "1Gi", func(p *v1.Pod) {
		p.Labels = map[string]string{"pod-template-hash": "5c9"}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-5c9", Controller: &yes}}
	})
	now := p.DeepCopy()
	now.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1")
	for _, c := range []struct {
		owner Owner
		want  string
	}{
		{OwnerOf(p), `kubectl -n default patch deployment web --type=strategic -p '{"spec":{"template":{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}}]}}}}'`},
		{Owner{}, `kubectl -n default get pod web-5c9-x -o json | kubectl patch --local -f - --type=strategic -p '{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}}]}}' -o json | kubectl replace --force -f -`},
	} {
		if got := podCommands(c.owner, p, now); len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v:\n%s\nwant\n%s", c.owner, strings.Join(got, "\n"), c.want)
		}
	}
	if got := podCommands(Owner{Kind: "job", Name: "x"}, p, now); len(got) != 0 {
		t.Errorf("a Job's template cannot be changed: %v", got)
	}
}
