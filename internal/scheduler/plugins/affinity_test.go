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

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/interpodaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// near is a term about Pods with app=APP in the same domain of the key.
func near(app, key string, change ...func(*v1.PodAffinityTerm)) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
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

func wants(terms ...v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		affinityOf(p).PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func minds(terms ...v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		affinityOf(p).PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func likes(weight int32, t v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		affinityOf(p).PodAffinity = &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: weight, PodAffinityTerm: t}}}
	}
}

func dislikes(weight int32, t v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		affinityOf(p).PodAntiAffinity = &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: weight, PodAffinityTerm: t}}}
	}
}

func in(namespace string) func(*v1.Pod) { return func(p *v1.Pod) { p.Namespace = namespace } }

// teams is how namespaces are labelled in these tests.
func teams(name string) labels.Set {
	return map[string]labels.Set{"ns": {"team": "a"}, "ns2": {"team": "b"}}[name]
}

func TestInterPodAffinityVerdicts(t *testing.T) {
	web, db := labelled("app=web"), labelled("app=db")
	nodes := []*v1.Node{aNode("a1", label("zone", "1")), aNode("a2", label("zone", "1")), aNode("b1", label("zone", "2")), aNode("bare")}
	there := []*v1.Pod{aPod("db", on("a1"), db), aPod("web", on("b1"), web), aPod("web2", on("a2"), web, in("ns2"))}
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
		"no affinity":                         {p: aPod("p"), want: "a1 a2 b1 bare"},
		"near the database, same zone":        {p: aPod("p", wants(near("db", "zone"))), want: "a1 a2"},
		"near the database, same host":        {p: aPod("p", wants(near("db", v1.LabelHostname))), want: "a1"},
		"nobody to be near":                   {p: aPod("p", wants(near("cache", "zone"))), want: ""},
		"first of its own group":              {p: aPod("p", labelled("app=cache"), wants(near("cache", "zone"))), want: "a1 a2 b1"},
		"not the first: one is there":         {p: aPod("p", web, wants(near("web", "zone"))), want: "b1"},
		"terms must mean the same Pod":        {p: aPod("p", wants(near("db", "zone"), near("web", "zone"))), want: ""},
		"two terms, one Pod":                  {p: aPod("p", wants(near("db", "zone"), near("db", v1.LabelHostname))), want: "a1"},
		"away from web of this namespace":     {p: aPod("p", minds(near("web", "zone"))), want: "a1 a2 bare"},
		"away from web anywhere":              {p: aPod("p", minds(near("web", "zone", every))), want: "bare"},
		"away from web of team b":             {p: aPod("p", minds(near("web", "zone", teamB))), want: "b1 bare"},
		"away from web of a named namespace":  {p: aPod("p", minds(near("web", v1.LabelHostname, named("ns2")))), want: "a1 b1 bare"},
		"named or of team b":                  {p: aPod("p", minds(near("web", "zone", named("ns"), teamB))), want: "bare"},
		"kept out by one that is there":       {p: aPod("p", web), more: []*v1.Pod{aPod("shy", on("a1"), minds(near("web", "zone")))}, want: "b1 bare"},
		"kept out of another namespace":       {p: aPod("p", web, in("ns2")), more: []*v1.Pod{aPod("shy", on("a1"), minds(near("web", "zone", teamB)))}, want: "b1 bare"},
		"not kept out: another namespace":     {p: aPod("p", web, in("ns2")), more: []*v1.Pod{aPod("shy", on("a1"), minds(near("web", "zone")))}, want: "a1 a2 b1 bare"},
		"a nil selector means nobody":         {p: aPod("p", minds(v1.PodAffinityTerm{TopologyKey: "zone"})), want: "a1 a2 b1 bare"},
		"an empty selector means everybody":   {p: aPod("p", minds(v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{}})), want: "a2 bare"},
		"preferred terms never refuse":        {p: aPod("p", likes(1, near("cache", "zone")), dislikes(100, near("db", "zone"))), want: "a1 a2 b1 bare"},
		"both kinds: near db, away from web":  {p: aPod("p", wants(near("db", "zone")), minds(near("web", v1.LabelHostname, every))), want: "a1"},
		"first of its group, but key missing": {p: aPod("p", labelled("app=cache"), wants(near("cache", "rack"))), want: ""},
	} {
		r := ask(c.p, interpodaffinity.New(nil, teams), snapshot.Of(nodes, append(append([]*v1.Pod(nil), there...), c.more...)))
		var fits []string
		for _, n := range nodes {
			if verdict(r, n.Name) == "fits" {
				fits = append(fits, n.Name)
			}
		}
		if got := strings.Join(fits, " "); got != c.want {
			t.Errorf("%s: fits on %q, want %q", name, got, c.want)
		}
	}
}

func TestInterPodAffinityExplains(t *testing.T) {
	nodes := []*v1.Node{aNode("a", label("zone", "1")), aNode("b")}
	pods := []*v1.Pod{aPod("db", on("a"), labelled("app=db")), aPod("shy", on("a"), minds(near("web", "zone")))}
	pl := interpodaffinity.New(nil, nil)
	for want, c := range map[string]struct {
		p    *v1.Pod
		node string
	}{
		"UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules | no Pod in zone=1 matches the Pod's affinity (app=cache in ns), nor on any other node | start a Pod that matches, or make the term preferred": {aPod("p", wants(near("cache", "zone"))), "a"},
		"UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules | no label zone, the topology key of the Pod's affinity (app=db in ns) | kubectl label node b zone=VALUE":                                      {aPod("p", wants(near("db", "zone"))), "b"},
		"Unschedulable: node(s) didn't match pod anti-affinity rules | zone=1 has Pod ns/db, which the Pod's anti-affinity (app=db in ns) keeps away from | remove Pod ns/db, or add a node with another value of zone, or make the term preferred": {
			aPod("p", minds(near("db", "zone"))), "a"},
		"Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules | zone=1 has Pod ns/shy, whose anti-affinity keeps this Pod out | remove Pod ns/shy, or add a node with another value of zone, or change the labels of this Pod": {
			aPod("p", labelled("app=web")), "a"},
	} {
		if got := verdict(ask(c.p, pl, snapshot.Of(nodes, pods)), c.node); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Of several domains that keep a Pod out the same is named each time: labels have no order of their own.
func TestInterPodAffinityNamesTheSameDomainEachTime(t *testing.T) {
	nodes := []*v1.Node{aNode("a", label("zone", "1"), label("rack", "7"), label("row", "3"))}
	pods := []*v1.Pod{aPod("x", on("a"), minds(near("web", "zone"))), aPod("y", on("a"), minds(near("web", "rack"))), aPod("z", on("a"), minds(near("web", "row")))}
	pl := interpodaffinity.New(nil, nil)
	for range 30 {
		got := verdict(ask(aPod("p", labelled("app=web")), pl, snapshot.Of(nodes, pods)), "a")
		if !strings.Contains(got, "rack=7 has Pod ns/y") {
			t.Fatal(got)
		}
	}
}

// row: SCO-07
func TestInterPodAffinityScores(t *testing.T) {
	web, db := labelled("app=web"), labelled("app=db")
	nodes := []*v1.Node{aNode("a", label("zone", "1")), aNode("b", label("zone", "2")), aNode("c", label("zone", "3"))}
	hard := func(w int32) *config.InterPodAffinityArgs {
		return &config.InterPodAffinityArgs{HardPodAffinityWeight: &w}
	}
	dbs := []*v1.Pod{aPod("d1", on("a"), db), aPod("d2", on("a"), db), aPod("d3", on("b"), db)}
	for name, c := range map[string]struct {
		args *config.InterPodAffinityArgs
		p    *v1.Pod
		pods []*v1.Pod
		want map[string][2]int64 // raw and normalised; nil: not scored
	}{
		"pulled by two, by one, by none":       {p: aPod("p", likes(10, near("db", "zone"))), pods: dbs, want: map[string][2]int64{"a": {20, 100}, "b": {10, 50}, "c": {0, 0}}},
		"pushed away":                          {p: aPod("p", dislikes(10, near("db", "zone"))), pods: dbs, want: map[string][2]int64{"a": {-20, 0}, "b": {-10, 50}, "c": {0, 100}}},
		"truncated, not rounded":               {p: aPod("p", likes(1, near("db", "zone"))), pods: append([]*v1.Pod{aPod("d4", on("a"), db)}, dbs...), want: map[string][2]int64{"a": {3, 100}, "b": {1, 33}, "c": {0, 0}}},
		"liked by one that is there":           {p: aPod("p", web), pods: []*v1.Pod{aPod("x", on("b"), likes(7, near("web", "zone")))}, want: map[string][2]int64{"a": {0, 0}, "b": {7, 100}, "c": {0, 0}}},
		"disliked by one that is there":        {p: aPod("p", web), pods: []*v1.Pod{aPod("x", on("b"), dislikes(7, near("web", "zone")))}, want: map[string][2]int64{"a": {0, 100}, "b": {-7, 0}, "c": {0, 100}}},
		"required by one that is there":        {p: aPod("p", web), pods: []*v1.Pod{aPod("x", on("b"), wants(near("web", "zone")))}, want: map[string][2]int64{"a": {0, 0}, "b": {1, 100}, "c": {0, 0}}},
		"required, of no weight":               {args: hard(0), p: aPod("p", web), pods: []*v1.Pod{aPod("x", on("b"), wants(near("web", "zone")))}},
		"required, heavier than a like":        {args: hard(50), p: aPod("p", web), pods: []*v1.Pod{aPod("x", on("b"), wants(near("web", "zone"))), aPod("y", on("a"), likes(25, near("web", "zone")))}, want: map[string][2]int64{"a": {25, 50}, "b": {50, 100}, "c": {0, 0}}},
		"others' likes ignored":                {args: &config.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true}, p: aPod("p", web), pods: []*v1.Pod{aPod("x", on("b"), likes(7, near("web", "zone")))}},
		"not ignored when it has likes itself": {args: &config.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true}, p: aPod("p", web, likes(7, near("db", "zone"))), pods: []*v1.Pod{aPod("x", on("b"), likes(7, near("web", "zone")))}, want: map[string][2]int64{"a": {0, 0}, "b": {7, 100}, "c": {0, 0}}},
		"nobody around":                        {p: aPod("p", likes(10, near("db", "zone")))},
	} {
		r := ask(c.p, interpodaffinity.New(c.args, teams), snapshot.Of(nodes, c.pods))
		for _, s := range r.Scores(len(nodes)) {
			want, scored := c.want[s.Node]
			if len(s.Parts) == 0 && c.want == nil {
				continue
			}
			if !scored || len(s.Parts) != 1 || s.Parts[0].Raw != want[0] || s.Parts[0].Norm != want[1] {
				t.Errorf("%s: %s scores %v, want %v", name, s.Node, s.Parts, want)
			}
		}
	}
}

// A verdict is the same whether Pods were there from the beginning or came and went in thought, and it is what the definition says, term by term and Pod by Pod.
func TestInterPodAffinityProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		apps := []string{"web", "db", "cache"}
		draw := func(name string, of []string) string { return rapid.SampledFrom(of).Draw(t, name) }
		var nodes []*v1.Node
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			n := aNode(fmt.Sprint("n", i))
			if z := draw("zone", []string{"", "1", "2"}); z != "" {
				n.Labels["zone"] = z
			}
			nodes = append(nodes, n)
		}
		anyTerm := func() v1.PodAffinityTerm {
			term := near(draw("about", apps), draw("key", []string{"zone", v1.LabelHostname}))
			switch draw("where", []string{"own", "every", "b"}) {
			case "every":
				term.NamespaceSelector = &metav1.LabelSelector{}
			case "b":
				term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
			}
			return term
		}
		anyPod := func(name string) *v1.Pod {
			p := aPod(name, labelled("app="+draw("app", apps)), in(draw("ns", []string{"ns", "ns2"})))
			for range rapid.IntRange(0, 2).Draw(t, "wants") {
				a := affinityOf(p)
				if a.PodAffinity == nil {
					a.PodAffinity = &v1.PodAffinity{}
				}
				a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, anyTerm())
			}
			if rapid.Bool().Draw(t, "minds") {
				minds(anyTerm())(p)
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
		pl := interpodaffinity.New(nil, teams)
		whole := ask(p, pl, snapshot.Of(nodes, all))
		for _, n := range nodes {
			want := "fits"
			if !naive(p, n, nodes, all) {
				want = "refused"
			}
			got := "fits"
			if verdict(whole, n.Name) != "fits" {
				got = "refused"
			}
			if got != want {
				t.Fatalf("%s: %s, by definition %s", n.Name, got, want)
			}
		}
		follows(t, pl, p, nodes, snapshot.Of(nodes, all), snapshot.Of(nodes, half), late)
	})
}

// follows adds the late Pods to half in thought and compares, then removes them from whole in thought and compares.
func follows(t *rapid.T, pl *interpodaffinity.Plugin, p *v1.Pod, nodes []*v1.Node, whole, half *snapshot.Snapshot, late []framework.PodInfo) {
	ctx := context.Background()
	begin := func(w *snapshot.Snapshot) framework.CycleState {
		state := place.NewState()
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

// naive is the definition: every term against every Pod.
func naive(p *v1.Pod, n *v1.Node, nodes []*v1.Node, pods []*v1.Pod) bool {
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
		where := t.NamespaceSelector == nil && other.Namespace == owner.Namespace || ns.Matches(teams(other.Namespace))
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
	pl := interpodaffinity.New(nil, teams)
	events, err := pl.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	podHint, nodeHint := events[0].QueueingHintFn, events[1].QueueingHintFn
	web, db := labelled("app=web"), labelled("app=db")
	nearDB, awayFromDB := aPod("p", wants(near("db", "zone"))), aPod("p", minds(near("db", "zone")))
	shy := aPod("shy", on("a"), minds(near("web", "zone")))
	zone := func(v string) *v1.Node { return aNode("n", label("zone", v)) }
	for name, c := range map[string]struct {
		fn            framework.QueueingHintFn
		p             *v1.Pod
		before, after any
		want          framework.QueueingHint
	}{
		"wanted company comes":              {podHint, nearDB, nil, aPod("q", db), framework.Queue},
		"other company comes":               {podHint, nearDB, nil, aPod("q", web), framework.QueueSkip},
		"becomes wanted company":            {podHint, nearDB, aPod("q", web), aPod("q", db), framework.Queue},
		"stays wanted company":              {podHint, nearDB, aPod("q", db), aPod("q", db), framework.QueueSkip},
		"minded Pod goes":                   {podHint, awayFromDB, aPod("q", db), nil, framework.Queue},
		"minded Pod changes":                {podHint, awayFromDB, aPod("q", db), aPod("q", web), framework.Queue},
		"another goes":                      {podHint, awayFromDB, aPod("q", web), nil, framework.QueueSkip},
		"one that minds goes":               {podHint, aPod("p", web), shy, nil, framework.Queue},
		"one that minds others goes":        {podHint, aPod("p", db), shy, nil, framework.QueueSkip},
		"the Pod itself changes labels":     {podHint, aPod("p", db), aPod("p", db), aPod("p", web), framework.Queue},
		"node with the key":                 {nodeHint, nearDB, nil, zone("1"), framework.Queue},
		"node without the key":              {nodeHint, nearDB, nil, aNode("n"), framework.QueueSkip},
		"node without the key, anti":        {nodeHint, awayFromDB, nil, aNode("n"), framework.Queue},
		"node moves to another zone":        {nodeHint, awayFromDB, zone("1"), zone("2"), framework.Queue},
		"node changes another label":        {nodeHint, awayFromDB, zone("1"), aNode("n", label("zone", "1"), label("x", "y")), framework.QueueSkip},
		"any node helps against the unseen": {nodeHint, aPod("p", web), zone("1"), zone("2"), framework.Queue},
	} {
		got, err := c.fn(logr.Discard(), c.p, c.before, c.after)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}
