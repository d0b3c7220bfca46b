package plugins_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/interpodaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// affinityTerm is a term about Pods with app=APP in the same domain of the key.
func affinityTerm(app, key string, change ...func(*v1.PodAffinityTerm)) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{TopologyKey: key,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
	for _, f := range change {
		f(&t)
	}
	return t
}

func affinityOf(p *v1.Pod) *v1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	return p.Spec.Affinity
}

func requiredAffinity(terms ...v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		affinityOf(p).PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func requiredAntiAffinity(terms ...v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		affinityOf(p).PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func preferredAffinity(weight int32, t v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		affinityOf(p).PodAffinity = &v1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
				{Weight: weight, PodAffinityTerm: t}}}
	}
}

func preferredAntiAffinity(weight int32, t v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		affinityOf(p).PodAntiAffinity = &v1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
				{Weight: weight, PodAffinityTerm: t}}}
	}
}

func inNamespace(namespace string) func(*v1.Pod) { return func(p *v1.Pod) { p.Namespace = namespace } }

// namespaceLabels is how namespaces are labelled in these tests.
func namespaceLabels(name string) labels.Set {
	return map[string]labels.Set{"ns": {"team": "a"}, "ns2": {"team": "b"}}[name]
}

func TestInterPodAffinityStatuses(t *testing.T) {
	web, db := withPodLabels("app=web"), withPodLabels("app=db")
	nodes := []*v1.Node{newNode("a1", label("zone", "1")), newNode("a2", label("zone", "1")),
		newNode("b1", label("zone", "2")), newNode("bare")}
	there := []*v1.Pod{newPod("db", onNode("a1"), db), newPod("web", onNode("b1"), web),
		newPod("web2", onNode("a2"), web, inNamespace("ns2"))}
	every := func(t *v1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} }
	teamB := func(t *v1.PodAffinityTerm) {
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	}
	named := func(names ...string) func(*v1.PodAffinityTerm) {
		return func(t *v1.PodAffinityTerm) { t.Namespaces = names }
	}
	for name, c := range map[string]struct {
		p    *v1.Pod
		more []*v1.Pod
		want string // nodes it fits on
	}{
		"no affinity": {p: newPod("p"), want: "a1 a2 b1 bare"},
		"near the database, same zone": {p: newPod("p", requiredAffinity(affinityTerm("db", "zone"))),
			want: "a1 a2"},
		"near the database, same host": {p: newPod("p", requiredAffinity(affinityTerm("db", v1.LabelHostname))),
			want: "a1"},
		"nobody to be near": {p: newPod("p", requiredAffinity(affinityTerm("cache", "zone"))),
			want: ""},
		"first of its own group": {p: newPod("p", withPodLabels("app=cache"),
			requiredAffinity(affinityTerm("cache", "zone"))), want: "a1 a2 b1"},
		"not the first: one is there": {p: newPod("p", web, requiredAffinity(affinityTerm("web", "zone"))),
			want: "b1"},
		"terms must mean the same Pod": {
			p: newPod("p", requiredAffinity(affinityTerm("db", "zone"), affinityTerm("web", "zone"))), want: ""},
		"two terms, one Pod": {
			p:    newPod("p", requiredAffinity(affinityTerm("db", "zone"), affinityTerm("db", v1.LabelHostname))),
			want: "a1"},
		"away from web of this namespace": {p: newPod("p", requiredAntiAffinity(affinityTerm("web", "zone"))),
			want: "a1 a2 bare"},
		"away from web anywhere": {
			p: newPod("p", requiredAntiAffinity(affinityTerm("web", "zone", every))), want: "bare"},
		"away from web of team b": {
			p: newPod("p", requiredAntiAffinity(affinityTerm("web", "zone", teamB))), want: "b1 bare"},
		"away from web of a named namespace": {
			p:    newPod("p", requiredAntiAffinity(affinityTerm("web", v1.LabelHostname, named("ns2")))),
			want: "a1 b1 bare"},
		"named or of team b": {
			p: newPod("p", requiredAntiAffinity(affinityTerm("web", "zone", named("ns"), teamB))), want: "bare"},
		"kept out by one that is there": {p: newPod("p", web),
			more: []*v1.Pod{newPod("shy", onNode("a1"), requiredAntiAffinity(affinityTerm("web", "zone")))},
			want: "b1 bare"},
		"kept out of another namespace": {p: newPod("p", web, inNamespace("ns2")),
			more: []*v1.Pod{newPod("shy", onNode("a1"), requiredAntiAffinity(affinityTerm("web", "zone", teamB)))},
			want: "b1 bare"},
		"not kept out: another namespace": {p: newPod("p", web, inNamespace("ns2")),
			more: []*v1.Pod{newPod("shy", onNode("a1"), requiredAntiAffinity(affinityTerm("web", "zone")))},
			want: "a1 a2 b1 bare"},
		"a nil selector means nobody": {
			p: newPod("p", requiredAntiAffinity(v1.PodAffinityTerm{TopologyKey: "zone"})), want: "a1 a2 b1 bare"},
		"an empty selector means everybody": {
			p: newPod("p",
				requiredAntiAffinity(v1.PodAffinityTerm{TopologyKey: v1.LabelHostname,
					LabelSelector: &metav1.LabelSelector{}})), want: "a2 bare"},
		"preferred terms never refuse": {p: newPod("p", preferredAffinity(1, affinityTerm("cache", "zone")),
			preferredAntiAffinity(100, affinityTerm("db", "zone"))), want: "a1 a2 b1 bare"},
		"both kinds: near db, away from web": {p: newPod("p", requiredAffinity(affinityTerm("db", "zone")),
			requiredAntiAffinity(affinityTerm("web", v1.LabelHostname, every))), want: "a1"},
		"first of its group, but key missing": {p: newPod("p", withPodLabels("app=cache"),
			requiredAffinity(affinityTerm("cache", "rack"))), want: ""},
	} {
		r := schedulePod(c.p, interpodaffinity.New(nil, namespaceLabels),
			snapshot.Of(nodes, append(append([]*v1.Pod(nil), there...), c.more...)))
		var fits []string
		for _, n := range nodes {
			if statusText(r, n.Name) == "fits" {
				fits = append(fits, n.Name)
			}
		}
		if got := strings.Join(fits, " "); got != c.want {
			t.Errorf("%s: fits on %q, want %q", name, got, c.want)
		}
	}
}

func TestInterPodAffinityExplains(t *testing.T) {
	nodes := []*v1.Node{newNode("a", label("zone", "1")), newNode("b")}
	pods := []*v1.Pod{newPod("db", onNode("a"), withPodLabels("app=db")),
		newPod("shy", onNode("a"), requiredAntiAffinity(affinityTerm("web", "zone")))}
	pl := interpodaffinity.New(nil, nil)
	for want, c := range map[string]struct {
		p    *v1.Pod
		node string
	}{
		"UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules | no Pod in zone=1 matches the Pod's " +
			"affinity (app=cache in ns), nor on any other node | start a Pod that matches, or make the term " +
			"preferred": {newPod("p", requiredAffinity(affinityTerm("cache", "zone"))), "a"},
		"UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules | no label zone, the topology key of " +
			"the Pod's affinity (app=db in ns) | kubectl label node b zone=VALUE": {
			newPod("p", requiredAffinity(affinityTerm("db", "zone"))), "b"},
		"Unschedulable: node(s) didn't match pod anti-affinity rules | zone=1 has Pod ns/db, which the Pod's " +
			"anti-affinity (app=db in ns) keeps away from | remove Pod ns/db, or add a node with another value of " +
			"zone, or make the term preferred": {
			newPod("p", requiredAntiAffinity(affinityTerm("db", "zone"))), "a"},
		"Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules | zone=1 has Pod ns/shy, whose " +
			"anti-affinity (app=web in ns) keeps this Pod out | remove Pod ns/shy, or add a node with another " +
			"value of zone, or change the labels of this Pod": {
			newPod("p", withPodLabels("app=web")), "a"},
	} {
		if got := statusText(schedulePod(c.p, pl, snapshot.Of(nodes, pods)), c.node); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Of several domains that keep a Pod out the same is named each time: labels have no order of their
// own.
func TestInterPodAffinityNamesTheSameDomainEachTime(t *testing.T) {
	nodes := []*v1.Node{newNode("a", label("zone", "1"), label("rack", "7"), label("row", "3"))}
	pods := []*v1.Pod{newPod("x", onNode("a"), requiredAntiAffinity(affinityTerm("web", "zone"))),
		newPod("y", onNode("a"), requiredAntiAffinity(affinityTerm("web", "rack"))),
		newPod("z", onNode("a"), requiredAntiAffinity(affinityTerm("web", "row")))}
	pl := interpodaffinity.New(nil, nil)
	for range 30 {
		got := statusText(schedulePod(newPod("p", withPodLabels("app=web")), pl, snapshot.Of(nodes, pods)), "a")
		if !strings.Contains(got, "rack=7 has Pod ns/y") {
			t.Fatalf(`got %v, want it with "rack=7 has Pod ns/y"`, got)
		}
	}
}

// row: SCO-07
func TestInterPodAffinityScores(t *testing.T) {
	web, db := withPodLabels("app=web"), withPodLabels("app=db")
	nodes := []*v1.Node{newNode("a", label("zone", "1")), newNode("b", label("zone", "2")),
		newNode("c", label("zone", "3"))}
	hard := func(w int32) *config.InterPodAffinityArgs {
		return &config.InterPodAffinityArgs{HardPodAffinityWeight: &w}
	}
	dbs := []*v1.Pod{newPod("d1", onNode("a"), db), newPod("d2", onNode("a"), db), newPod("d3", onNode("b"), db)}
	for name, c := range map[string]struct {
		args *config.InterPodAffinityArgs
		p    *v1.Pod
		pods []*v1.Pod
		want map[string][2]int64 // raw and normalised; nil: not scored
	}{
		"pulled by two, by one, by none": {p: newPod("p", preferredAffinity(10, affinityTerm("db", "zone"))),
			pods: dbs, want: map[string][2]int64{"a": {20, 100}, "b": {10, 50}, "c": {0, 0}}},
		"pushed away": {p: newPod("p", preferredAntiAffinity(10, affinityTerm("db", "zone"))),
			pods: dbs, want: map[string][2]int64{"a": {-20, 0}, "b": {-10, 50}, "c": {0, 100}}},
		"truncated, not rounded": {p: newPod("p", preferredAffinity(1, affinityTerm("db", "zone"))),
			pods: append([]*v1.Pod{newPod("d4", onNode("a"), db)}, dbs...),
			want: map[string][2]int64{"a": {3, 100}, "b": {1, 33}, "c": {0, 0}}},
		"liked by one that is there": {p: newPod("p", web),
			pods: []*v1.Pod{newPod("x", onNode("b"), preferredAffinity(7, affinityTerm("web", "zone")))},
			want: map[string][2]int64{"a": {0, 0}, "b": {7, 100}, "c": {0, 0}}},
		"disliked by one that is there": {p: newPod("p", web),
			pods: []*v1.Pod{newPod("x", onNode("b"), preferredAntiAffinity(7, affinityTerm("web", "zone")))},
			want: map[string][2]int64{"a": {0, 100}, "b": {-7, 0}, "c": {0, 100}}},
		"required by one that is there": {p: newPod("p", web),
			pods: []*v1.Pod{newPod("x", onNode("b"), requiredAffinity(affinityTerm("web", "zone")))},
			want: map[string][2]int64{"a": {0, 0}, "b": {1, 100}, "c": {0, 0}}},
		"required, of no weight": {args: hard(0), p: newPod("p", web),
			pods: []*v1.Pod{newPod("x", onNode("b"), requiredAffinity(affinityTerm("web", "zone")))}},
		"required, heavier than a like": {args: hard(50), p: newPod("p", web),
			pods: []*v1.Pod{newPod("x", onNode("b"), requiredAffinity(affinityTerm("web", "zone"))),
				newPod("y", onNode("a"), preferredAffinity(25, affinityTerm("web", "zone")))},
			want: map[string][2]int64{"a": {25, 50}, "b": {50, 100}, "c": {0, 0}}},
		"others' likes ignored": {
			args: &config.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true}, p: newPod("p", web),
			pods: []*v1.Pod{newPod("x", onNode("b"), preferredAffinity(7, affinityTerm("web", "zone")))}},
		"not ignored when it has likes itself": {
			args: &config.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true},
			p:    newPod("p", web, preferredAffinity(7, affinityTerm("db", "zone"))),
			pods: []*v1.Pod{newPod("x", onNode("b"), preferredAffinity(7, affinityTerm("web", "zone")))},
			want: map[string][2]int64{"a": {0, 0}, "b": {7, 100}, "c": {0, 0}}},
		"nobody around": {p: newPod("p", preferredAffinity(10, affinityTerm("db", "zone")))},
	} {
		for form, r := range bothWays(c.p, interpodaffinity.New(c.args, namespaceLabels), snapshot.Of(nodes, c.pods)) {
			for _, s := range r.Scores(len(nodes)) {
				want, scored := c.want[s.Node]
				if len(s.Parts) == 0 && c.want == nil {
					continue
				}
				if !scored || len(s.Parts) != 1 || s.Parts[0].Raw != want[0] || s.Parts[0].Norm != want[1] {
					t.Errorf("%s, %s: %s scores %v, want %v", name, form, s.Node, s.Parts, want)
				}
			}
		}
	}
}

// A status is the same whether Pods were there from the beginning or came and went in thought, and
// it is what the definition says, term by term and Pod by Pod.
func TestInterPodAffinityProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		apps := []string{"web", "db", "cache"}
		draManager := func(name string, of []string) string { return rapid.SampledFrom(of).Draw(t, name) }
		var nodes []*v1.Node
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			n := newNode(fmt.Sprint("n", i))
			if z := draManager("zone", []string{"", "1", "2"}); z != "" {
				n.Labels["zone"] = z
			}
			nodes = append(nodes, n)
		}
		anyTerm := func() v1.PodAffinityTerm {
			term := affinityTerm(draManager("about", apps), draManager("key", []string{"zone", v1.LabelHostname}))
			switch draManager("where", []string{"own", "every", "b"}) {
			case "every":
				term.NamespaceSelector = &metav1.LabelSelector{}
			case "b":
				term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
			}
			return term
		}
		anyPod := func(name string) *v1.Pod {
			p := newPod(name, withPodLabels("app="+draManager("app", apps)),
				inNamespace(draManager("ns", []string{"ns", "ns2"})))
			for range rapid.IntRange(0, 2).Draw(t, "wants") {
				a := affinityOf(p)
				if a.PodAffinity == nil {
					a.PodAffinity = &v1.PodAffinity{}
				}
				a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(
					a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, anyTerm())
			}
			if rapid.Bool().Draw(t, "minds") {
				requiredAntiAffinity(anyTerm())(p)
			}
			return p
		}
		p := anyPod("p")
		var all, half []*v1.Pod
		var late []framework.PodInfo
		for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
			other := anyPod(fmt.Sprint("q", i))
			other.Spec.NodeName = nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "on")].Name
			all = append(all, other)
			if rapid.Bool().Draw(t, "late") {
				info, _ := snapshot.NewPodInfo(other)
				late = append(late, info)
			} else {
				half = append(half, other)
			}
		}
		pl := interpodaffinity.New(nil, namespaceLabels)
		whole := schedulePod(p, pl, snapshot.Of(nodes, all))
		for _, n := range nodes {
			want := "fits"
			if !slowFilter(p, n, nodes, all) {
				want = "refused"
			}
			got := "fits"
			if statusText(whole, n.Name) != "fits" {
				got = "refused"
			}
			if got != want {
				t.Fatalf("%s: %s, by definition %s", n.Name, got, want)
			}
		}
		checkAggregate(t, pl, p, nodes, snapshot.Of(nodes, all), snapshot.Of(nodes, half), late)
	})
}

// checkAggregate adds the late Pods to half in thought and compares, then removes them from whole
// in thought and compares.
func checkAggregate(t *rapid.T, pl *interpodaffinity.Plugin, p *v1.Pod, nodes []*v1.Node,
	whole, half *snapshot.Snapshot, late []framework.PodInfo) {
	ctx := context.Background()
	begin := func(w *snapshot.Snapshot) framework.CycleState {
		state := schedule.NewCycleState()
		if _, s := pl.PreFilter(ctx, state, p, w.All()); s.IsSkip() {
			return nil
		}
		return state
	}
	sees := func(state framework.CycleState, w *snapshot.Snapshot) string {
		var out strings.Builder
		for _, n := range nodes {
			fmt.Fprintln(&out, n.Name, pl.Filter(ctx, state, p, w.Node(n.Name)).Message())
		}
		return out.String()
	}
	a, b := begin(whole), begin(half)
	if a == nil || b == nil {
		return // a Pod that nobody minds yet: the framework then calls no extension either
	}
	wantWhole, wantHalf := sees(a, whole), sees(b, half)
	for _, info := range late {
		n := half.Node(info.GetPod().Spec.NodeName)
		pl.AddPod(ctx, b, p, info, n)
		pl.RemovePod(ctx, a, p, info, n)
	}
	if got := sees(b, half); got != wantWhole {
		t.Fatalf("added in thought:\n%s\nthere from the beginning:\n%s", got, wantWhole)
	}
	if got := sees(a, whole); got != wantHalf {
		t.Fatalf("removed in thought:\n%s\nnever there:\n%s", got, wantHalf)
	}
}

// slowFilter is the definition: every term against every Pod.
func slowFilter(p *v1.Pod, n *v1.Node, nodes []*v1.Node, pods []*v1.Pod) bool {
	at := func(name string) *v1.Node {
		for _, m := range nodes {
			if m.Name == name {
				return m
			}
		}
		return nil
	}
	means := func(owner *v1.Pod, t v1.PodAffinityTerm, other *v1.Pod) bool {
		s, _ := metav1.LabelSelectorAsSelector(t.LabelSelector)
		ns, _ := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
		where := t.NamespaceSelector == nil && other.Namespace == owner.Namespace ||
			ns.Matches(namespaceLabels(other.Namespace))
		return where && s.Matches(labels.Set(other.Labels))
	}
	together := func(key string, m *v1.Node) bool {
		x, ok := n.Labels[key]
		y, too := m.Labels[key]
		return ok && too && x == y
	}
	a := affinityOf(p)
	if a.PodAntiAffinity != nil {
		for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			for _, q := range pods {
				if means(p, t, q) && together(t.TopologyKey, at(q.Spec.NodeName)) {
					return false
				}
			}
		}
	}
	for _, q := range pods {
		if qa := q.Spec.Affinity; qa != nil && qa.PodAntiAffinity != nil {
			for _, t := range qa.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
				if means(q, t, p) && together(t.TopologyKey, at(q.Spec.NodeName)) {
					return false
				}
			}
		}
	}
	if a.PodAffinity == nil {
		return true
	}
	terms := a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	meansAll := func(other *v1.Pod) bool {
		for _, t := range terms {
			if !means(p, t, other) {
				return false
			}
		}
		return len(terms) > 0
	}
	first := meansAll(p)
	for _, q := range pods {
		for _, t := range terms {
			if _, ok := at(q.Spec.NodeName).Labels[t.TopologyKey]; ok && meansAll(q) {
				first = false
			}
		}
	}
	for _, t := range terms {
		if _, ok := n.Labels[t.TopologyKey]; !ok {
			return false
		}
		met := first
		for _, q := range pods {
			met = met || meansAll(q) && together(t.TopologyKey, at(q.Spec.NodeName))
		}
		if !met {
			return false
		}
	}
	return true
}

func TestInterPodAffinityHints(t *testing.T) {
	pl := interpodaffinity.New(nil, namespaceLabels)
	events, err := pl.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	podHint, nodeHint := events[0].QueueingHintFn, events[1].QueueingHintFn
	web, db := withPodLabels("app=web"), withPodLabels("app=db")
	nearDB, awayFromDB := newPod("p", requiredAffinity(affinityTerm("db", "zone"))),
		newPod("p", requiredAntiAffinity(affinityTerm("db", "zone")))
	shy := newPod("shy", onNode("a"), requiredAntiAffinity(affinityTerm("web", "zone")))
	zone := func(v string) *v1.Node { return newNode("n", label("zone", v)) }
	for name, c := range map[string]struct {
		fn            framework.QueueingHintFn
		p             *v1.Pod
		before, after any
		want          framework.QueueingHint
	}{
		"wanted company comes":       {podHint, nearDB, nil, newPod("q", db), framework.Queue},
		"other company comes":        {podHint, nearDB, nil, newPod("q", web), framework.QueueSkip},
		"becomes wanted company":     {podHint, nearDB, newPod("q", web), newPod("q", db), framework.Queue},
		"stays wanted company":       {podHint, nearDB, newPod("q", db), newPod("q", db), framework.QueueSkip},
		"minded Pod goes":            {podHint, awayFromDB, newPod("q", db), nil, framework.Queue},
		"minded Pod changes":         {podHint, awayFromDB, newPod("q", db), newPod("q", web), framework.Queue},
		"another goes":               {podHint, awayFromDB, newPod("q", web), nil, framework.QueueSkip},
		"one that minds goes":        {podHint, newPod("p", web), shy, nil, framework.Queue},
		"one that minds others goes": {podHint, newPod("p", db), shy, nil, framework.QueueSkip},
		"the Pod itself changes labels": {podHint, newPod("p", db), newPod("p", db), newPod("p", web),
			framework.Queue},
		"node with the key":          {nodeHint, nearDB, nil, zone("1"), framework.Queue},
		"node without the key":       {nodeHint, nearDB, nil, newNode("n"), framework.QueueSkip},
		"node without the key, anti": {nodeHint, awayFromDB, nil, newNode("n"), framework.Queue},
		"node moves to another zone": {nodeHint, awayFromDB, zone("1"), zone("2"), framework.Queue},
		"node changes another label": {nodeHint, awayFromDB, zone("1"),
			newNode("n", label("zone", "1"), label("x", "y")), framework.QueueSkip},
		"any node helps against the unseen": {nodeHint, newPod("p", web), zone("1"), zone("2"), framework.Queue},
	} {
		got, err := c.fn(logr.Discard(), c.p, c.before, c.after)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}
