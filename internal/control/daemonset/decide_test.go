package daemonset

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/test/wrappers"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func node(name string, taints ...corev1.Taint) *corev1.Node {
	return wrappers.MakeNode().Name(name).Label("disk", name).Taints(taints...).Obj()
}

func pod(name, on, hash string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := wrappers.MakePod().Name(name).UID(name).
		CreationTimestamp(metav1.NewTime(t0.Add(-time.Hour))).
		Label(appsv1.DefaultDaemonSetUniqueLabelKey, hash).Node(on).Phase(corev1.PodRunning).Obj()
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(t0.Add(-time.Hour))}}
	for _, c := range change {
		c(p)
	}
	return p
}

func unready(p *corev1.Pod)       { p.Status.Conditions = nil }
func ending(p *corev1.Pod)        { p.DeletionTimestamp = &metav1.Time{Time: t0} }
func failed(p *corev1.Pod)        { p.Status.Phase = corev1.PodFailed }
func setCreatedNow(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(t0) }

func set(surge, unavailable string) *appsv1.DaemonSet {
	s, u := intstr.Parse(surge), intstr.Parse(unavailable)
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "ds", Namespace: "ns", UID: "ds"},
		Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
			Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: &s,
				MaxUnavailable: &u}}}}
}

func planText(p Plan) string {
	var out []string
	for _, n := range p.Create {
		out = append(out, "+"+n)
	}
	for _, x := range append(append([]*corev1.Pod{}, p.Delete...), p.Finished...) {
		out = append(out, "-"+x.Name)
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

// row: CTL-12
func TestOnePodOnEachNode(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Effect: effect}
	}
	chosen := set("0", "1")
	chosen.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "n2"}
	toOne := pod("waits", "", "new")
	toOne.Spec.Affinity = Pod(set("0", "1"), "gone", "new").Spec.Affinity
	n1, n2, n3 := node("n1"), node("n2"), node("n3")
	closed := node("n1", taint("x", corev1.TaintEffectNoSchedule))
	toN2, goesToo := toOne.DeepCopy(), toOne.DeepCopy()
	toN2.Spec.Affinity = Pod(set("0", "1"), "n2", "new").Spec.Affinity
	ending(goesToo)
	deleted, noLimits, tolerant := set("0", "1"), set("0", "1"), set("0", "1")
	tolerant.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists}}
	deleted.DeletionTimestamp = &metav1.Time{Time: t0}
	noLimits.Spec.UpdateStrategy.RollingUpdate = nil
	old := func(name, on string, change ...func(*corev1.Pod)) *corev1.Pod { return pod(name, on, "old", change...) }
	for _, c := range []struct {
		name  string
		set   *appsv1.DaemonSet
		nodes []*corev1.Node
		pods  []*corev1.Pod
		want  string
	}{
		{"a new node gets one", set("0", "1"), []*corev1.Node{n1, n2}, []*corev1.Pod{pod("a", "n1", "new")}, "+n2"},
		{"only where the selector fits", chosen, []*corev1.Node{n1, n2}, []*corev1.Pod{pod("a", "n1", "new")},
			"+n2 -a"},
		{"not where a taint forbids", set("0", "1"),
			[]*corev1.Node{node("n1", taint("x", corev1.TaintEffectNoSchedule))}, nil, ""},
		{"NoSchedule drives none away", set("0", "1"),
			[]*corev1.Node{node("n1", taint("x", corev1.TaintEffectNoSchedule))}, []*corev1.Pod{pod("a", "n1", "new")},
			""},
		{"NoExecute does", set("0", "1"), []*corev1.Node{node("n1", taint("x", corev1.TaintEffectNoExecute))},
			[]*corev1.Pod{pod("a", "n1", "new")}, "-a"},
		{"a cordoned, unreachable node keeps it", set("0", "1"),
			[]*corev1.Node{node("n1", taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
				taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute))}, nil, "+n1"},
		{"the younger of two goes", set("0", "1"), []*corev1.Node{n1},
			[]*corev1.Pod{pod("b", "n1", "new", setCreatedNow), pod("a", "n1", "new")}, "-b"},
		{"an ending one is waited for", set("0", "1"), []*corev1.Node{n1}, []*corev1.Pod{pod("a", "n1", "new", ending)},
			""},
		{"a failed one makes room", set("0", "1"), []*corev1.Node{n1}, []*corev1.Pod{pod("a", "n1", "new", failed)},
			"-a"},
		{"one that waits for a node that is gone", set("0", "1"), []*corev1.Node{n1},
			[]*corev1.Pod{pod("a", "n1", "new"), toOne}, "-waits"},
		{"one that waits for a node that is there", set("0", "1"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "new"), toN2}, ""},
		{"one that waits and goes already", set("0", "1"), []*corev1.Node{n1},
			[]*corev1.Pod{pod("a", "n1", "new"), goesToo}, ""},
		{"one on a node that is gone is another's matter", set("0", "1"), []*corev1.Node{n1},
			[]*corev1.Pod{pod("a", "n1", "new"), pod("b", "gone", "new")}, ""},
		{"one for no node", set("0", "1"), []*corev1.Node{n1},
			[]*corev1.Pod{pod("a", "n1", "new"), pod("b", "", "new")}, ""},
		{"a set that goes", deleted, []*corev1.Node{n1, n2}, []*corev1.Pod{pod("a", "n1", "new"), toOne}, ""},
		{"one that goes from where none may be", chosen, []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "new", ending), pod("b", "n2", "new")}, ""},
		{"two too many", set("0", "1"), []*corev1.Node{n1}, []*corev1.Pod{pod("c", "n1", "new"), pod("b", "n1", "new"),
			pod("a", "n1", "new")}, "-b -c"},
		{"of two templates one goes, too", set("0", "1"), []*corev1.Node{n1},
			[]*corev1.Pod{old("a", "n1"), pod("b", "n1", "new", unready)}, "-b"},
		{"a closed node that is tolerated", tolerant, []*corev1.Node{closed, n2}, nil, "+n1 +n2"},
		{"a closed node is not updated", set("0", "1"), []*corev1.Node{closed}, []*corev1.Pod{old("a", "n1")}, ""},
		{"a closed node does not count", set("0", "1"), []*corev1.Node{closed, n2},
			[]*corev1.Pod{old("a", "n1", unready), old("b", "n2")}, "-b"},
		{"a closed node gets none beside", set("1", "0"), []*corev1.Node{closed}, []*corev1.Pod{old("a", "n1")}, ""},
		{"without limits one", noLimits, []*corev1.Node{n1, n2}, []*corev1.Pod{old("a", "n1"), old("b", "n2")}, "-a"},
		{"with limits of nothing one", set("0", "0"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{old("a", "n1"), old("b", "n2")}, "-a"},
		{"a part of three, rounded up", set("0", "34%"), []*corev1.Node{n1, n2, n3},
			[]*corev1.Pod{old("a", "n1"), old("b", "n2"), old("c", "n3")}, "-a -b"},
		{"one that ends counts", set("0", "1"), []*corev1.Node{n1, n2}, []*corev1.Pod{old("a", "n1", ending),
			old("b", "n2")}, ""},
		{"one that ends beside one that is new", set("0", "1"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{old("a", "n1", ending), pod("c", "n1", "new"), old("b", "n2")}, "-b"},
		{"a sick one beside as many as may", set("0", "2"), []*corev1.Node{n1, n2, n3},
			[]*corev1.Pod{old("a", "n1"), old("b", "n2", unready), old("c", "n3")}, "-a -b"},
		{"a surge beside a sick one at once", set("1", "0"), []*corev1.Node{n1, n2, n3},
			[]*corev1.Pod{old("a", "n1"), old("b", "n2", unready), old("c", "n3")}, "+n1 +n2"},
		{"a surge of a part, rounded up", set("34%", "0"), []*corev1.Node{n1, n2, n3},
			[]*corev1.Pod{old("a", "n1"), old("b", "n2"), old("c", "n3")}, "+n1 +n2"},
		{"a surge where none is old", set("1", "0"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "new"), pod("b", "n2", "new")}, ""},
		{"of each template one stays in a surge", set("1", "0"), []*corev1.Node{n1},
			[]*corev1.Pod{old("a", "n1"), old("b", "n1"), pod("c", "n1", "new", unready), pod("d", "n1", "new",
				unready)},
			"-b -d"},
		{"an update takes one", set("0", "1"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("b", "n2", "old")}, "-a"},
		{"and waits until it is back", set("0", "1"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "new", unready), pod("b", "n2", "old")}, ""},
		{"a sick old one goes at once", set("0", "1"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old", unready), pod("b", "n2", "old")}, "-a"},
		{"half at once", set("0", "50%"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("b", "n2", "old")}, "-a"},
		{"all at once", set("0", "100%"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("b", "n2", "old")}, "-a -b"},
		{"a surge puts the new one beside", set("1", "0"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("b", "n2", "old")}, "+n1"},
		{"the old one stays until it is ready", set("1", "0"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("c", "n1", "new", unready, setCreatedNow), pod("b", "n2", "old")},
			""},
		{"and goes then", set("1", "0"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("c", "n1", "new", setCreatedNow), pod("b", "n2", "old")}, "-a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := planText(Next(In{Set: c.set, Nodes: c.nodes, Pods: c.pods, Hash: "new", Now: t0})); got !=
				c.want {
				t.Errorf("plan %q, want %q", got, c.want)
			}
		})
	}
}

func TestOnDeleteWaits(t *testing.T) {
	s := set("0", "1")
	s.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	if got := planText(Next(In{Set: s, Nodes: []*corev1.Node{node("n1")}, Pods: []*corev1.Pod{pod("a", "n1", "old")},
		Hash: "new", Now: t0})); got != "" {
		t.Errorf("planText = %q, want nothing", got)
	}
}

func TestStatus(t *testing.T) {
	in := In{Set: set("0", "1"), Hash: "new", Now: t0, Nodes: []*corev1.Node{node("n1"), node("n2"),
		node("n3", corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule})},
		Pods: []*corev1.Pod{pod("a", "n1", "new"), pod("b", "n2", "old", unready), pod("c", "n3", "new")}}
	s, _ := Status(in, 0)
	got := fmt.Sprint(s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberMisscheduled, s.NumberReady,
		s.NumberAvailable, s.NumberUnavailable, s.UpdatedNumberScheduled)
	if got != "2 2 1 1 1 1 1" {
		t.Errorf(`got %q, want "2 2 1 1 1 1 1"`, got)
	}
}

// row: CTL-12
func TestPodIsForItsNodeOnly(t *testing.T) {
	s := set("0", "1")
	s.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "3"}
	s.Spec.Template.Spec.HostNetwork = true
	p := Pod(s, "n7", "h")
	if TargetNode(p) != "n7" || p.Spec.NodeName != "" || p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] != "h" ||
		p.Labels[generationLabel] != "3" {
		t.Errorf("got %+v, want TargetNode(p) n7, NodeName empty, Labels h and Labels[generationLabel] 3", p)
	}
	var tolerated []string
	for _, x := range p.Spec.Tolerations {
		tolerated = append(tolerated, fmt.Sprint(x.Key, " ", x.Operator, " ", x.Effect))
	}
	sort.Strings(tolerated)
	if want := []string{"node.kubernetes.io/disk-pressure Exists NoSchedule",
		"node.kubernetes.io/memory-pressure Exists NoSchedule",
		"node.kubernetes.io/network-unavailable Exists NoSchedule",
		"node.kubernetes.io/not-ready Exists NoExecute", "node.kubernetes.io/pid-pressure Exists NoSchedule",
		"node.kubernetes.io/unreachable Exists NoExecute",
		"node.kubernetes.io/unschedulable Exists NoSchedule"}; !slices.Equal(tolerated, want) {
		t.Errorf("got the tolerations %q, want %q", tolerated, want)
	}
}

// Of two Pods on a node the older counts, by its name when they are of one age; a Pod is ready by
// its Ready condition alone, and available when it was so for minReadySeconds.
//
// row: CTL-12
func TestStatusOfPods(t *testing.T) {
	since := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(t0.Add(-d)) }
	}
	notReady := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	other := func(p *corev1.Pod) { p.Status.Conditions[0].Type = corev1.PodScheduled }
	second := func(p *corev1.Pod) {
		p.Status.Conditions = append([]corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}},
			p.Status.Conditions...)
	}
	generation := func(g string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			delete(p.Labels, appsv1.DefaultDaemonSetUniqueLabelKey)
			p.Labels[generationLabel] = g
		}
	}
	for name, c := range map[string]struct {
		pods  []*corev1.Pod
		want  string // ready, available, updated
		again time.Duration
	}{
		"none":             {nil, "0 0 0", 0},
		"long ready":       {[]*corev1.Pod{pod("a", "n1", "new")}, "1 1 1", 0},
		"just long enough": {[]*corev1.Pod{pod("a", "n1", "new", since(10*time.Second))}, "1 1 1", 0},
		"not yet":          {[]*corev1.Pod{pod("a", "n1", "new", since(9*time.Second))}, "1 0 1", time.Second},
		"the first of two": {[]*corev1.Pod{pod("a", "n1", "new", since(time.Second)), pod("b", "n2", "new",
			since(4*time.Second))}, "2 0 2", 6 * time.Second},
		"the second of two": {[]*corev1.Pod{pod("a", "n1", "new", since(4*time.Second)), pod("b", "n2", "new",
			since(time.Second))}, "2 0 2", 6 * time.Second},
		"not ready":            {[]*corev1.Pod{pod("a", "n1", "new", notReady)}, "0 0 1", 0},
		"another condition":    {[]*corev1.Pod{pod("a", "n1", "new", other)}, "0 0 1", 0},
		"the second condition": {[]*corev1.Pod{pod("a", "n1", "new", second)}, "1 1 1", 0},
		"the older counts": {[]*corev1.Pod{pod("a", "n1", "new", setCreatedNow), pod("b", "n1", "old", unready)},
			"0 0 0", 0},
		"the first name counts": {[]*corev1.Pod{pod("b", "n1", "new"), pod("a", "n1", "old", unready)}, "0 0 0", 0},
		"by the generation":     {[]*corev1.Pod{pod("a", "n1", "", generation("3"))}, "1 1 1", 0},
		"of another generation": {[]*corev1.Pod{pod("a", "n1", "", generation("2"))}, "1 1 0", 0},
		"of another hash": {[]*corev1.Pod{pod("a", "n1", "old",
			func(p *corev1.Pod) { p.Labels[generationLabel] = "3" })}, "1 1 0", 0},
		"of this hash": {[]*corev1.Pod{pod("a", "n1", "new", func(p *corev1.Pod) { p.Labels[generationLabel] = "2" })},
			"1 1 1", 0},
		"without any sign": {[]*corev1.Pod{pod("a", "n1", "")}, "1 1 0", 0},
	} {
		in := In{Set: set("0", "1"), Hash: "new", Now: t0, Nodes: []*corev1.Node{node("n1"), node("n2")}, Pods: c.pods}
		in.Set.Spec.MinReadySeconds = 10
		in.Set.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "3"}
		in.Set.Generation, in.Set.Status.CollisionCount = 7, new(int32(2))
		s, again := Status(in, 0)
		if got := fmt.Sprint(s.NumberReady, s.NumberAvailable, s.UpdatedNumberScheduled); got != c.want ||
			again != c.again ||
			s.DesiredNumberScheduled != 2 || s.NumberUnavailable != 2-s.NumberAvailable || s.ObservedGeneration != 7 ||
			*s.CollisionCount != 2 {
			t.Errorf("%s: got %s, again in %v: %+v, want %s, again in %v", name, got, again, s, c.want, c.again)
		}
		if s, _ := Status(in, 5); *s.CollisionCount != 5 {
			t.Errorf("%s: %d collisions, want 5", name, *s.CollisionCount)
		}
		delete(in.Set.Annotations, appsv1.DeprecatedTemplateGeneration)
		if name == "without any sign" {
			if s, _ := Status(in, 0); s.UpdatedNumberScheduled != 0 {
				t.Errorf("%s, nor a generation: counts as updated", name)
			}
		}
	}
}

// A daemon Pod's node is the one it is bound to, or the one that its affinity names, alone.
//
// row: CTL-12
func TestTargetNode(t *testing.T) {
	named := func(key string, op corev1.NodeSelectorOperator, values ...string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{}, {MatchFields: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}}}}}
	}
	const key, in = "metadata.name", corev1.NodeSelectorOpIn
	for name, c := range map[string]struct {
		bound string
		a     *corev1.Affinity
		want  string
	}{
		"no affinity":       {"", nil, ""},
		"none to nodes":     {"", &corev1.Affinity{}, ""},
		"a preference":      {"", &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}, ""},
		"its name":          {"", named(key, in, "n1"), "n1"},
		"one of two":        {"", named(key, in, "n1", "n2"), ""},
		"of none":           {"", named(key, in), ""},
		"not its name":      {"", named(key, corev1.NodeSelectorOpNotIn, "n1"), ""},
		"another field":     {"", named("metadata.uid", in, "n1"), ""},
		"bound":             {"n2", nil, "n2"},
		"bound and another": {"n2", named(key, in, "n1"), "n2"},
	} {
		if got := TargetNode(&corev1.Pod{Spec: corev1.PodSpec{NodeName: c.bound, Affinity: c.a}}); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// One sync creates and deletes at most 250 Pods.
//
// row: CTL-12
func TestABurstIsBounded(t *testing.T) {
	in := In{Set: set("0", "1"), Hash: "new", Now: t0}
	for i := range 251 {
		in.Nodes = append(in.Nodes, node(fmt.Sprintf("n%03d", i)))
	}
	if p := Next(in); len(p.Create) != 250 {
		t.Errorf("%d to create, want 250", len(p.Create))
	}
	in.Set.Spec.Template.Spec.NodeName = "nowhere"
	for _, n := range in.Nodes {
		in.Pods = append(in.Pods, pod("on-"+n.Name, n.Name, "new"))
	}
	if p := Next(in); len(p.Delete) != 250 || len(p.Create) != 0 {
		t.Errorf("%d to delete and %d to create, want 250 and none", len(p.Delete), len(p.Create))
	}
}

// A Ready condition without lastTransitionTime does not show since when: with minReadySeconds the
// Pod is not available, as upstream.
func TestPodReadyWithoutTransitionTimeIsNotAvailable(t *testing.T) {
	for _, seconds := range []int32{0, 10} {
		in := In{Set: set("0", "1"), Now: t0}
		in.Set.Spec.MinReadySeconds = seconds
		p := pod("a", "n1", "new")
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		if available := in.available(p); available != (seconds == 0) {
			t.Errorf("minReadySeconds %d: available: got %v, want %v", seconds, available, (seconds == 0))
		}
	}
}
