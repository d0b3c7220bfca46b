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
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/wrappers"
)

func node(name, cpu, memory string, more ...func(*v1.Node)) *v1.Node {
	return wrappers.MakeNode().Hostname(name).Allocatable(map[v1.ResourceName]string{v1.ResourceCPU: cpu,
		v1.ResourceMemory: memory, v1.ResourcePods: "10"}).Obj(more...)
}

func asking(name, cpu, memory string, more ...func(*v1.Pod)) *v1.Pod {
	return wrappers.MakePod().Namespace("default").Name(name).UID(name).Container("app", "").
		Req(map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory}).Obj(more...)
}

func on(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }

func schedulerPlugins(t interface {
	Helper()
	Fatal(...any)
}) *schedule.PluginSet {
	t.Helper()
	j, err := plugins.DefaultPluginSet(v1.DefaultSchedulerName, nil)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Of several claims one is ReadWriteOncePod: each is freed by itself, so that Pods that only share
// another are left alone.
func TestEachClaimIsFreedByItself(t *testing.T) {
	uses := func(claims ...string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			for _, c := range claims {
				p.Spec.Volumes = append(p.Spec.Volumes,
					v1.Volume{Name: c,
						VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
							ClaimName: c}}})
			}
		}
	}
	snap := snapshot.Of([]*v1.Node{node("n1", "4", "4Gi"), node("n2", "4", "4Gi")}, []*v1.Pod{
		asking("shares", "1", "1Gi", uses("shared"), on("n1")), asking("has", "1", "1Gi", uses("own"), on("n2")),
		asking("other", "1", "1Gi", uses("else"), on("n1")),
	})
	var deletedPods []types.UID
	for _, c := range freeClaim(searchState{pod: asking("waits", "1", "1Gi", uses("shared", "own", "nobodys")),
		snapshot: snap}, journal.NodeRefusal{}) {
		if len(c.deletedPods) != 1 {
			t.Errorf("one change ends %v", c.deletedPods)
		}
		deletedPods = append(deletedPods, c.deletedPods...)
	}
	if !slices.Equal(deletedPods, []types.UID{"shares", "has"}) {
		t.Errorf("ends %v", deletedPods)
	}
}

// On a full node only Pods of the caller's namespace are offered to go, one or several.
func TestPodsOfOtherNamespacesAreLeftAlone(t *testing.T) {
	elsewhere := func(p *v1.Pod) { p.Namespace = "other" }
	for name, pods := range map[string][]*v1.Pod{
		"one suffices":   {asking("theirs", "4", "1Gi", on("a"), elsewhere), asking("mine", "4", "1Gi", on("a"))},
		"two are needed": {asking("theirs", "6", "1Gi", on("a"), elsewhere), asking("mine", "2", "1Gi", on("a"))},
		"none is mine":   {asking("theirs", "8", "1Gi", on("a"), elsewhere)},
	} {
		found, _ := FindRemedies(context.Background(), In{Pod: asking("p", "3", "1Gi"), Plugins: schedulerPlugins(t),
			Snapshot: snapshot.Of([]*v1.Node{node("a", "8", "8Gi")}, pods)})
		if len(found) == 0 {
			t.Errorf("%s: no remedy, want at least a lower request", name)
		}
		for _, r := range found {
			if strings.Contains(r.Description, "theirs") {
				t.Errorf("%s: %q takes a Pod of another namespace", name, r.Description)
			}
		}
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
		{"what is short of one resource", asking("p", "2", "1Gi"), []*v1.Node{node("a", "4", "8Gi")},
			[]*v1.Pod{asking("x", "2500m", "1Gi", on("a")), asking("y", "300m", "1Gi", on("a"))},
			[]string{"lower the cpu request of container app by 800m to 1200m", "remove pod x", "add a node like a"},
			false},
		{"two resources at once", asking("p", "2", "4Gi"), []*v1.Node{node("a", "1", "2Gi")}, nil,
			[]string{"lower the cpu request of container app by 1000m to 1000m and lower the memory request of " +
				"container app by 2Gi to 2Gi"}, false},
		{"the init container decides", asking("p", "100m", "1Gi", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{
				{Name: "migrate",
					Resources: v1.ResourceRequirements{
						Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}}}}
		}), []*v1.Node{node("a", "1", "8Gi")}, nil,
			[]string{"lower the cpu request of init container migrate by 2000m to 1000m"}, false},
		{"a node that no kubelet fills", asking("p", "100m", "1Gi"),
			[]*v1.Node{node("a", "4", "8Gi", func(n *v1.Node) { n.Status = v1.NodeStatus{} })}, nil, nil, true},
		{"a Pod that asks nothing, and such a node", asking("p", "0", "0"),
			[]*v1.Node{node("a", "4", "8Gi", func(n *v1.Node) { n.Status = v1.NodeStatus{} })}, nil, nil, true},
		{"cordoned", asking("p", "1", "1Gi"), []*v1.Node{node("a", "4", "8Gi", cordon)}, nil, []string{"uncordon a"},
			false},
		{"tainted", asking("p", "1", "1Gi"), []*v1.Node{node("a", "4", "8Gi", taint)}, nil,
			[]string{"tolerate team=a:NoSchedule", "take the taint team=a:NoSchedule off a"}, false},
		{"tainted and short: two changes together", asking("p", "6", "1Gi"), []*v1.Node{node("a", "4", "8Gi", taint)},
			nil, []string{"tolerate team=a:NoSchedule, and lower the cpu request of container app by 2000m to 4000m"},
			false},
		{"a label is missing", asking("p", "1", "1Gi", ssd), []*v1.Node{node("a", "4", "8Gi")}, nil,
			[]string{"label node a disk=ssd", "drop disk=ssd from nodeSelector"}, false},
		{"a host port is taken", asking("p", "1", "1Gi", port), []*v1.Node{node("a", "4", "8Gi")},
			[]*v1.Pod{asking("x", "1", "1Gi", on("a"), port)}, []string{"remove pod x", "give up the host port"},
			false},
		{"a number too small", asking("p", "1", "1Gi", requires("disk", v1.NodeSelectorOpGt, "500")),
			[]*v1.Node{node("a", "4", "8Gi", tagged("disk", "100")), node("b", "4", "8Gi", tagged("disk", "250"))}, nil,
			[]string{"in the required node affinity, make disk Gt 500 disk Gt 249",
				"in the required node affinity, make disk Gt 500 disk Gt 99"}, false},
		{"a value that is not listed", asking("p", "1", "1Gi", requires("pool", v1.NodeSelectorOpIn, "x")),
			[]*v1.Node{node("a", "4", "8Gi", tagged("pool", "y"))}, nil,
			[]string{"in the required node affinity, accept pool=y too", "label node a pool=x"}, false},
		{"a value that is ruled out", asking("p", "1", "1Gi", requires("pool", v1.NodeSelectorOpNotIn, "x", "y")),
			[]*v1.Node{node("a", "4", "8Gi", tagged("pool", "y"))}, nil,
			[]string{"in the required node affinity, no longer rule out pool=y"}, false},
		{"a node of that name is not there", asking("p", "1", "1Gi", func(p *v1.Pod) {
			requires("metadata.name", v1.NodeSelectorOpIn, "gone")(p)
			t := &RequiredTerms(p)[0]
			t.MatchFields, t.MatchExpressions = t.MatchExpressions, nil
		}), []*v1.Node{node("a", "4", "8Gi"), node("b", "500m", "8Gi")}, nil,
			[]string{"in the required node affinity, name a instead of gone", "drop the required node affinity"},
			false},
		{"fewer domains than wanted", asking("p", "1", "1Gi", spread(1, 3)),
			[]*v1.Node{node("a", "4", "8Gi", tagged("zone", "1")), node("b", "4", "8Gi", tagged("zone", "2"))},
			[]*v1.Pod{asking("x", "1", "1Gi", web, on("a")), asking("y", "1", "1Gi", web, on("b"))},
			[]string{"lower minDomains of the spread over zone from 3 to 2",
				"raise maxSkew of the spread over zone from 1 to 2"}, false},
		{"a skew of three too many", asking("p", "1", "1Gi", spread(1, 0)),
			[]*v1.Node{node("a", "1", "8Gi", tagged("zone", "1")), node("b", "8", "8Gi", tagged("zone", "2"))},
			[]*v1.Pod{asking("f", "1", "1Gi", on("a")), asking("x", "1", "1Gi", web, on("b")),
				asking("y", "1", "1Gi", web, on("b")), asking("z", "1", "1Gi", web, on("b"))},
			[]string{"raise maxSkew of the spread over zone from 1 to 4", "remove pod f"}, false},
		{"a conflicting Pod on the next node, in another namespace",
			asking("p", "1", "1Gi", avoids("zone", "db", "other")),
			[]*v1.Node{node("a", "4", "8Gi", tagged("zone", "1")), node("b", "4", "8Gi", tagged("zone", "1"))},
			[]*v1.Pod{asking("x", "1", "1Gi", on("a"),
				func(p *v1.Pod) { p.Namespace, p.Labels = "other", map[string]string{"app": "db"} })},
			[]string{"remove pod other/x (1000m cpu, 1Gi memory) from a"}, false},
		{"a neighbour in another namespace", asking("p", "1", "1Gi", joins("zone", "db")),
			[]*v1.Node{node("a", "4", "8Gi", tagged("zone", "1"))},
			[]*v1.Pod{asking("x", "1", "1Gi", on("a"),
				func(p *v1.Pod) { p.Namespace, p.Labels = "other", map[string]string{"app": "db"} })},
			[]string{"let the Pod affinity to app=db look in namespace other too (namespaces: [default, other])"},
			false},
		{"more cards than any node has", asking("p", "1", "1Gi", cards("4")),
			[]*v1.Node{node("a", "4", "8Gi",
				func(n *v1.Node) { n.Status.Allocatable["example.com/card"] = resource.MustParse("2") })}, nil,
			[]string{"lower the example.com/card request of container app by 2 to 2"}, false},
		{"the Pod as a whole", asking("p", "1", "1Gi", func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("6")}}
		}), []*v1.Node{node("a", "4", "8Gi")}, nil, []string{"lower the cpu request of the Pod by 2000m to 4000m"},
			false},
		{"it fits", asking("p", "1", "1Gi"), []*v1.Node{node("a", "4", "8Gi")}, nil, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, _ := FindRemedies(context.Background(), In{Pod: c.pod, Snapshot: snapshot.Of(c.nodes, c.pods),
				Plugins: schedulerPlugins(t)})
			if c.none != (len(found) == 0) {
				t.Fatalf("got the remedies %v, want none: %t", found, c.none)
			}
			var all []string
			for _, r := range found {
				all = append(all, r.Description)
			}
			for _, want := range c.want {
				if !strings.Contains("\n"+strings.Join(all, "\n"), "\n"+want) {
					t.Errorf("no remedy begins with %q:\n%s", want, strings.Join(all, "\n"))
				}
			}
		})
	}
}

func tagged(key, value string) func(*v1.Node) {
	return func(n *v1.Node) { n.Labels[key] = value }
}

func web(p *v1.Pod) { p.Labels = map[string]string{"app": "web"} }

func requires(key string, operator v1.NodeSelectorOperator, values ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{
			NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{
					MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}}}}}
	}
}

// spread is a hard rule over zones for Pods app=web; 0 domains are none wanted.
func spread(skew, domains int32) func(*v1.Pod) {
	return func(p *v1.Pod) {
		web(p)
		c := v1.TopologySpreadConstraint{MaxSkew: skew, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}
		if domains > 0 {
			c.MinDomains = &domains
		}
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{c}
	}
}

func term(key, app string, namespaces ...string) []v1.PodAffinityTerm {
	return []v1.PodAffinityTerm{{TopologyKey: key, Namespaces: namespaces,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
}

func avoids(key, app string, namespaces ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(key, app,
				namespaces...)}}
	}
}

func joins(key, app string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{
			PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(key, app)}}
	}
}

func cards(n string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		q := resource.MustParse(n)
		p.Spec.Containers[0].Resources.Requests["example.com/card"] = q
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"example.com/card": q}
	}
}

// Of two nodes that miss a bound the nearer comes first.
func TestBoundIsMovedToTheNearestNode(t *testing.T) {
	snap := snapshot.Of([]*v1.Node{node("a", "4", "8Gi", tagged("disk", "100")),
		node("b", "4", "8Gi", tagged("disk", "250"))}, nil)
	found, _ := FindRemedies(context.Background(),
		In{Pod: asking("p", "1", "1Gi", requires("disk", v1.NodeSelectorOpGt, "500")), Snapshot: snap,
			Plugins: schedulerPlugins(t)})
	if len(found) == 0 || !strings.Contains(found[0].Description, "disk Gt 249") {
		t.Errorf("found %v", found)
	}
}

func port(p *v1.Pod) {
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}}
}

// One milli less than the remedy names would not be enough: what is lowered is lowered by no more
// than must be.
func TestLoweredRequestsAreTheLargestThatFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []*v1.Node
		var pods []*v1.Pod
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			name := fmt.Sprint("n", i)
			nodes = append(nodes, node(name, fmt.Sprintf("%dm", rapid.IntRange(500, 4000).Draw(t, "cpu")), "8Gi"))
			pods = append(pods, asking("on-"+name, fmt.Sprintf("%dm", rapid.IntRange(1, 400).Draw(t, "used")), "1Gi",
				on(name)))
		}
		p := asking("p", fmt.Sprintf("%dm", rapid.IntRange(4100, 9000).Draw(t, "asked")), "1Gi")
		snap := snapshot.Of(nodes, pods)
		best := int64(0)
		for _, n := range snap.All() {
			best = max(best, n.GetAllocatable().GetMilliCPU()-n.GetRequested().GetMilliCPU())
		}
		found, _ := FindRemedies(context.Background(), In{Pod: p, Snapshot: snap, Plugins: schedulerPlugins(t)})
		for _, r := range found {
			if r.Kind == "request" && strings.Contains(r.Description, fmt.Sprintf("to %dm:", best)) {
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
		{OwnerOf(p),
			`kubectl -n default patch deployment web --type=strategic -p ` +
				`'{"spec":{"template":{"spec":{"containers":[{"name":"app",` +
				`"resources":{"requests":{"cpu":"1"}}}]}}}}'`},
		{Owner{}, `kubectl -n default get pod web-5c9-x -o json | kubectl patch --local -f - --type=strategic -p ` +
			`'{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}}]}}' -o json | kubectl ` +
			`replace --force -f -`},
	} {
		if got := podCommands(c.owner, p, now); len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v:\n%s\nwant\n%s", c.owner, strings.Join(got, "\n"), c.want)
		}
	}
	job := podCommands(Owner{Kind: "job", Name: "x"}, p, now)
	if len(job) != 1 || !strings.Contains(job[0], `"controller-uid":null`) || !strings.HasSuffix(job[0],
		`-p '{"spec":{"template":{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}}]}}}}' -o `+
			`json | kubectl replace --force -f -`) {
		t.Errorf("a Job's template cannot be changed: got %q, want it made anew", job)
	}
}

// A container that is moved within a template takes none of the volumes along that the API server
// put into the Pod; a Pod that is made anew by itself keeps what it had.
func TestTemplatesNameNoInjectedVolumes(t *testing.T) {
	yes := true
	p := asking("train-x", "1", "1Gi", func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "train", Controller: &yes}}
		p.Spec.Volumes = []v1.Volume{{Name: "data"}, {Name: "kube-api-access-x"}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"},
			{Name: "kube-api-access-x", MountPath: "/var/run/secrets"}}
	})
	now := p.DeepCopy()
	now.Spec.InitContainers, now.Spec.Containers = now.Spec.Containers, nil
	for _, run := range append(Commands(p, now), Patch(p, now)) {
		if strings.Contains(run, "kube-api-access") || !strings.Contains(run, `"mountPath":"/data"`) {
			t.Errorf("got %s, want the mounts of the template alone", run)
		}
	}
	p.OwnerReferences, now.OwnerReferences = nil, nil
	if alone := Commands(p, now); !strings.Contains(alone[0], "kube-api-access") {
		t.Errorf("of a Pod by itself: got %s, want all its mounts", alone[0])
	}
	if len(p.Spec.Volumes) != 2 {
		t.Errorf("got %+v, want the Pod as it was", p.Spec.Volumes)
	}
}

// ScheduleAnyway with minDomains would be refused by the API server.
func TestScheduleAnywayHasNoMinDomains(t *testing.T) {
	p := asking("p", "1", "1Gi", spread(1, 3))
	changes := softenSpread(
		searchState{pod: p, snapshot: snapshot.Of([]*v1.Node{node("a", "4", "8Gi", tagged("zone", "1"))}, nil)},
		journal.NodeRefusal{})
	if len(changes) != 1 {
		t.Fatalf("%d changes", len(changes))
	}
	q := p.DeepCopy()
	changes[0].pod(q)
	if c := q.Spec.TopologySpreadConstraints[0]; c.WhenUnsatisfiable != v1.ScheduleAnyway || c.MinDomains != nil {
		t.Errorf("got %+v, want WhenUnsatisfiable ScheduleAnyway and no MinDomains", c)
	}
	if got := strings.Join(podCommands(Owner{}, p, q), ""); !strings.Contains(got,
		`"whenUnsatisfiable":"ScheduleAnyway"`) || strings.Contains(got, `"minDomains":3`) {
		t.Errorf(`got %v, want it with '"whenUnsatisfiable":"ScheduleAnyway"' and without '"minDomains":3'`, got)
	}
}
