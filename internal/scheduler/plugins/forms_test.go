package plugins_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/imagelocality"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodename"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeports"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/noderesources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeunschedulable"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/tainttoleration"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/expect"
)

// random makes clusters of anything that these plugins look at.
type random struct{ *rand.Rand }

func (r random) oneIn(n int) bool           { return r.IntN(n) == 0 }
func (r random) text(of ...string) string   { return of[r.IntN(len(of))] }
func (r random) keys(of ...string) []string { return of[:r.IntN(len(of)+1)] }
func (r random) amount(of ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for _, name := range of {
		if !r.oneIn(4) {
			l[v1.ResourceName(name)] = resource.MustParse(r.text("0", "1", "2", "3", "5", "8"))
		}
	}
	return l
}

var resourceNames = []string{"cpu", "memory", "ephemeral-storage", "x.org/a", "x.org/b", "hugepages-2Mi"}

func (r random) node(i int) *v1.Node {
	return newNode(fmt.Sprint("n", i), func(n *v1.Node) {
		n.Spec.Unschedulable = r.oneIn(3)
		for _, key := range r.keys("a", "b") {
			n.Labels[key] = r.text("1", "2", "3", "")
			taint(key + "=" + r.text("", "v") + ":" + r.text("NoSchedule", "NoExecute", "PreferNoSchedule"))(n)
		}
		n.Status.Allocatable = r.amount(append(resourceNames, "pods")...)
		for _, image := range r.keys("img:latest", "b:1") {
			n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{image},
				SizeBytes: r.Int64N(2 << 30)})
		}
	})
}

func (r random) pod(name string) *v1.Pod {
	return newPod(name, func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = r.amount(resourceNames...)
		p.Spec.Containers[0].Image = r.text("img", "b:1", "c")
		if r.oneIn(3) {
			p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 1, HostPort: int32(1 + r.IntN(2)),
				HostIP: r.text("", "10.0.0.1"), Protocol: v1.Protocol(r.text("TCP", "UDP"))}}
		}
		for _, key := range r.keys("a", "b", v1.TaintNodeUnschedulable) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: key,
				Operator: v1.TolerationOperator(r.text("Exists", "Equal")),
				Effect: v1.TaintEffect(r.text("", "NoSchedule",
					"PreferNoSchedule"))})
		}
		op := func() v1.NodeSelectorRequirement {
			switch o, key := r.text("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"), r.text("a", "b", "c"); o {
			case "Exists", "DoesNotExist":
				return expression(key, v1.NodeSelectorOperator(o))
			default:
				return expression(key, v1.NodeSelectorOperator(o), r.text("1", "2"))
			}
		}
		if r.oneIn(3) {
			mustBeIn(term(op(), op()), term(op()))(p)
		}
		for range r.IntN(3) {
			prefers(int32(1+r.IntN(9)), term(op()))(p)
		}
		if r.oneIn(9) {
			prefers(1, named("n1"))(p)
		}
		if r.oneIn(9) {
			mustBeIn(named("n1"), named("n2"))(p)
		}
		if r.oneIn(4) {
			selects("a=" + r.text("1", "2"))(p)
		}
		if r.oneIn(4) {
			p.Spec.NodeName = r.text("n1", "n2")
		}
	})
}

// foreign is what another plugin might have left in a state.
type foreign struct{}

func (foreign) Clone() framework.StateData { return foreign{} }

// localPlugins look at one node at a time.
func localPlugins() []framework.Plugin {
	scored := []config.ResourceSpec{{Name: "cpu", Weight: 3}, {Name: "memory", Weight: 1}, {Name: "x.org/a", Weight: 5},
		{Name: "ephemeral-storage", Weight: 2}, {Name: "hugepages-2Mi", Weight: 1}}
	fit := func(kind config.ScoringStrategyType, shape ...config.UtilizationShapePoint) framework.Plugin {
		return expect.Value(noderesources.NewFit(fitArgs(&config.ScoringStrategy{Type: kind, Resources: scored,
			RequestedToCapacityRatio: &config.RequestedToCapacityRatioParam{Shape: shape}}, "x.org")))
	}
	bended := []config.UtilizationShapePoint{{Utilization: 10, Score: 3}, {Utilization: 50, Score: 9},
		{Utilization: 90, Score: 1}}
	added := &config.NodeAffinityArgs{AddedAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{term(expression("b", "NotIn", "3"))}},
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 7,
			Preference: term(expression("a", "In", "1"))}}}}
	return []framework.Plugin{nodename.New(), nodeunschedulable.New(), tainttoleration.New(), nodeports.New(),
		imagelocality.New(), expect.Value(nodeaffinity.New(nil)), expect.Value(nodeaffinity.New(added)),
		noderesources.NewBalanced(&config.NodeResourcesBalancedAllocationArgs{Resources: scored}),
		expect.Value(noderesources.NewFit(fitArgs(nil))), fit(config.MostAllocated), fit(config.LeastAllocated),
		fit(config.RequestedToCapacityRatio, bended...)}
}

// A plugin says the same of a node after PreFilter and PreScore, without them, after something else
// wrote into the state, and by columns.
//
// row: FIL-02, FIL-03, FIL-04, FIL-06, FIL-07, FIL-09, FIL-10, FIL-13, FIL-18
func TestAllFormsOfAPluginAgree(t *testing.T) {
	r := random{rand.New(rand.NewPCG(1, 2))}
	refused, scored := map[string]int{}, map[string]int{}
	for range 300 {
		var nodes []*v1.Node
		var there []*v1.Pod
		for i := range 1 + r.IntN(5) {
			nodes = append(nodes, r.node(i))
			for k := range r.IntN(3) {
				q := r.pod(fmt.Sprint("q", i, k))
				q.Spec.NodeName = nodes[i].Name
				there = append(there, q)
			}
		}
		p, snap := r.pod("p"), snapshot.Of(nodes, there)
		table := &columns.Table{}
		table.Sync(snap)
		for which, pl := range localPlugins() {
			name := fmt.Sprint(which, " ", pl.Name())
			want := evaluated(t, pl, p, snap, prepare(t, pl, p, snap))
			for form, state := range map[string]framework.CycleState{"unprepared": emptyState(p, snap, pl, false),
				"of a foreign state": emptyState(p, snap, pl, true)} {
				if got := evaluated(t, pl, p, snap, state); got != want {
					t.Fatalf("%s, %s: got %v, want %v, Pod %+v", name, form, got, want, p.Spec)
				}
			}
			if by, ok := pl.(schedule.ColumnPlugin); ok {
				e := by.Evaluator(p, table)
				if fields := p.Spec.Affinity != nil && usesFields(p); (e == nil) != (fields &&
					pl.Name() == nodeaffinity.Name) {
					t.Fatalf("%s: columns %t, the Pod's terms read fields: %t", name, e != nil, fields)
				}
				if e != nil {
					if got := byColumns(pl, e, snap); got != want {
						t.Fatalf("%s, by columns: got %v, want %v, Pod %+v", name, got, want, p.Spec)
					}
				}
			}
			for _, n := range want.nodes {
				if n.status != "" {
					refused[name]++
				}
				if n.score != 0 {
					scored[name]++
				}
			}
		}
	}
	for which, pl := range localPlugins() {
		name := fmt.Sprint(which, " ", pl.Name())
		_, filters := pl.(framework.FilterPlugin)
		_, scores := pl.(framework.ScorePlugin)
		if filters && refused[name] < 10 || scores && scored[name] < 10 {
			t.Errorf("%s: %d nodes refused, %d scored: too few to show anything", name, refused[name], scored[name])
		}
	}
}

func usesFields(p *v1.Pod) bool {
	a := p.Spec.Affinity.NodeAffinity
	for _, t := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		if len(t.Preference.MatchFields) > 0 {
			return true
		}
	}
	if req := a.RequiredDuringSchedulingIgnoredDuringExecution; req != nil {
		for _, t := range req.NodeSelectorTerms {
			if len(t.MatchFields) > 0 {
				return true
			}
		}
	}
	return false
}

// nodeResults are what a plugin says of up to 5 nodes.
type nodeResults struct{ nodes [5]nodeResult }

type nodeResult struct {
	status string
	score  int64
}

func emptyState(p *v1.Pod, snap *snapshot.Snapshot, pl framework.Plugin, withForeign bool) framework.CycleState {
	state := schedule.NewCycleState()
	r := schedule.SchedulePod(context.Background(), schedule.Input{Pod: p, Snapshot: snap,
		Plugins: schedule.NewPluginSet("none"), State: state})
	if withForeign {
		r.State.Write(framework.StateKey("PreFilter"+pl.Name()), foreign{})
		r.State.Write(framework.StateKey("PreScore"+pl.Name()), foreign{})
	}
	return r.State
}

func prepare(t *testing.T, pl framework.Plugin, p *v1.Pod, snap *snapshot.Snapshot) framework.CycleState {
	t.Helper()
	state := emptyState(p, snap, pl, false)
	if pre, ok := pl.(framework.PreFilterPlugin); ok {
		if _, s := pre.PreFilter(t.Context(), state, p, snap.All()); !s.IsSuccess() && !s.IsSkip() {
			t.Fatalf("%s: PreFilter: %v", pl.Name(), s)
		}
	}
	if pre, ok := pl.(framework.PreScorePlugin); ok {
		if s := pre.PreScore(t.Context(), state, p, snap.All()); !s.IsSuccess() && !s.IsSkip() {
			t.Fatalf("%s: PreScore: %v", pl.Name(), s)
		}
	}
	return state
}

func evaluated(t *testing.T, pl framework.Plugin, p *v1.Pod, snap *snapshot.Snapshot,
	state framework.CycleState) (out nodeResults) {
	t.Helper()
	for i := range snap.Len() {
		n := snap.At(i)
		if f, ok := pl.(framework.FilterPlugin); ok {
			if s := f.Filter(t.Context(), state, p, n); s != nil {
				out.nodes[i].status = statusLine(s) + " " + s.Plugin()
			} else if e, ok := pl.(schedule.Explainer); ok && pl.Name() != nodename.Name &&
				pl.Name() != nodeunschedulable.Name && pl.Name() != nodeaffinity.Name {
				if said := e.Explain(t.Context(), state, p, n); said.Detail+said.Fix != "" {
					t.Errorf("%s: explains %+v where nothing is refused", pl.Name(), said)
				}
			}
		}
		if sc, ok := pl.(framework.ScorePlugin); ok {
			var s *framework.Status
			if out.nodes[i].score, s = sc.Score(t.Context(), state, p, n); s != nil {
				t.Errorf("%s: Score: %v, want nil", pl.Name(), s)
			}
		}
	}
	return out
}

func byColumns(pl framework.Plugin, e *columns.Evaluator, snap *snapshot.Snapshot) (out nodeResults) {
	var rows []int32
	for i := range snap.Len() {
		rows = append(rows, int32(i))
	}
	no, raw := make([]*framework.Status, len(rows)), make([]int64, len(rows))
	if e.Filter != nil {
		e.Filter(rows, no)
		for i, s := range no {
			if s != nil {
				out.nodes[i].status = statusLine(s) + " " + s.Plugin()
			}
		}
		refused := framework.NewStatus(framework.Unschedulable, "refused before")
		for i := range no {
			no[i] = refused
		}
		e.Filter(rows, no)
		for i := range no {
			if no[i] != refused {
				out.nodes[i].status = "refused twice"
			}
		}
	}
	if e.Score != nil {
		e.Score(rows, raw)
		for i, n := range raw {
			out.nodes[i].score = n
		}
	}
	return out
}

// What PreFilter and PreScore found out of a Pod is what counts afterwards: the Pod is not read
// again for every node.
func TestPreparedStateCounts(t *testing.T) {
	plain := newPod("p")
	full := snapshot.NewNodeInfo(newNode("n", taint("a:PreferNoSchedule"), label("a", "1")),
		podInfo(newPod("q", hostPort(80))))
	for _, c := range []struct {
		pl    framework.Plugin
		p     *v1.Pod
		score int64
	}{{nodeports.New(), newPod("p", hostPort(80)), 0},
		{expect.Value(nodeaffinity.New(nil)), newPod("p", selects("a=2")), 0},
		{expect.Value(nodeaffinity.New(nil)), newPod("p", prefers(7, term(expression("a", "In", "1")))), 7},
		{tainttoleration.New(), newPod("p", tolerate(v1.Toleration{Key: "a", Operator: v1.TolerationOpExists})), -1},
		{expect.Value(noderesources.NewFit(fitArgs(nil))), newPod("p", requests("cpu=100")), 0}} {
		state := prepare(t, c.pl, c.p, snapshot.Of([]*v1.Node{newNode("n")}, nil))
		if c.score != 0 {
			got, _ := c.pl.(framework.ScorePlugin).Score(t.Context(), state, plain, full)
			if other, _ := c.pl.(framework.ScorePlugin).Score(t.Context(), schedule.NewCycleState(), plain,
				full); got-other != c.score {
				t.Errorf("%s: got %d, and %d unprepared; want a difference of %d", c.pl.Name(), got, other, c.score)
			}
		} else if s := c.pl.(framework.FilterPlugin).Filter(t.Context(), state, plain, full); s == nil {
			t.Errorf("%s: the node is not refused", c.pl.Name())
		}
	}
}

func podInfo(p *v1.Pod) framework.PodInfo { return expect.Value(snapshot.NewPodInfo(p)) }

// Which plugins have nothing to do for a Pod that asks for nothing, and for one that asks for
// everything.
func TestSkippedPlugins(t *testing.T) {
	rich := newPod("p", hostPort(80), selects("a=1"), prefers(1, term(expression("a", "In", "1"))),
		spread(1, "zone", v1.DoNotSchedule), spread(1, "zone", v1.ScheduleAnyway), withPodLabels("app=web"))
	for _, c := range []struct {
		pl                     framework.Plugin
		plainFilter, plainRate string // of PreFilter and PreScore
	}{{nodeports.New(), "Skip: ", ""}, {expect.Value(nodeaffinity.New(nil)), "Skip: ", "Skip: "},
		{tainttoleration.New(), "", "Success"}, {expect.Value(noderesources.NewFit(fitArgs(nil))), "Success",
			"Success"}} {
		for p, want := range map[*v1.Pod][2]string{newPod("p"): {c.plainFilter, c.plainRate},
			rich: {"Success", "Success"}} {
			if pre, ok := c.pl.(framework.PreFilterPlugin); ok {
				r, s := pre.PreFilter(t.Context(), schedule.NewCycleState(), p, nil)
				if got := statusLine(s); r != nil || got != want[0] {
					t.Errorf("%s: PreFilter %v %s, want %s", c.pl.Name(), r, got, want[0])
				}
				if pre.PreFilterExtensions() != nil {
					t.Errorf("%s has extensions of PreFilter", c.pl.Name())
				}
			}
			if pre, ok := c.pl.(framework.PreScorePlugin); ok {
				if got := statusLine(pre.PreScore(t.Context(), schedule.NewCycleState(), p, nil)); got != want[1] {
					t.Errorf("%s: PreScore %s, want %s", c.pl.Name(), got, want[1])
				}
			}
		}
	}
}

// Node affinity by names: which nodes are looked at, and what is said of what cannot be read.
func TestNodeAffinityNamesAndErrors(t *testing.T) {
	by := func(names ...string) v1.NodeSelectorRequirement { return expression("metadata.name", "In", names...) }
	fields := func(all ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchFields: all}
	}
	for name, c := range map[string]struct {
		terms []v1.NodeSelectorTerm
		want  string
	}{
		"one":          {[]v1.NodeSelectorTerm{fields(by("a"))}, "[a] Success"},
		"two terms":    {[]v1.NodeSelectorTerm{fields(by("a")), fields(by("b"))}, "[a b] Success"},
		"both at once": {[]v1.NodeSelectorTerm{fields(by("a", "b"), by("b", "c"))}, "[b] Success"},
		"a conflict": {[]v1.NodeSelectorTerm{fields(by("a"), by("b"))},
			"[] UnschedulableAndUnresolvable: pod affinity terms conflict"},
		"one conflicts": {[]v1.NodeSelectorTerm{fields(by("a"), by("b")), fields(by("c"))}, "[c] Success"},
		"not by name":   {[]v1.NodeSelectorTerm{fields(by("a")), term(expression("a", "In", "b"))}, "[] Success"},
		"all but one":   {[]v1.NodeSelectorTerm{fields(expression("metadata.name", "NotIn", "a"))}, "[] Success"},
		"another field": {[]v1.NodeSelectorTerm{fields(expression("metadata.uid", "In", "a"))}, "[] Success"},
		"no term":       {nil, "[] Success"},
	} {
		r, s := expect.Value(nodeaffinity.New(nil)).PreFilter(t.Context(), schedule.NewCycleState(),
			newPod("p", mustBeIn(c.terms...)), nil)
		var names []string
		if r != nil {
			for _, n := range []string{"a", "b", "c"} {
				if r.NodeNames.Has(n) {
					names = append(names, n)
				}
			}
		}
		if got := fmt.Sprint(names, " ", statusLine(s)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	bad := term(expression("a", "Never", "b"))
	const unknown = `Unsupported value: "Never": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"`
	for what, a := range map[string]*v1.NodeAffinity{
		"addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: " +
			"nodeSelectorTerms[0].matchExpressions[0].operator": {
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{bad}}},
		"addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: [0].matchExpressions[0].operator": {
			PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1,
				Preference: bad}}},
	} {
		pl, err := nodeaffinity.New(&config.NodeAffinityArgs{AddedAffinity: a})
		if want := what + ": " + unknown; err == nil || err.Error() != want || pl != nil {
			t.Errorf("got %v, %v\nwant %s", pl, err, want)
		}
	}
	pl, wrong := expect.Value(nodeaffinity.New(&config.NodeAffinityArgs{AddedAffinity: &v1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{}}})),
		newPod("p", prefers(1, bad))
	want := "Error: [0].matchExpressions[0].operator: " + unknown
	if got := statusLine(pl.PreScore(t.Context(), schedule.NewCycleState(), wrong, nil)); got != want {
		t.Errorf("PreScore: got %s\nwant %s", got, want)
	}
	if n, s := pl.Score(t.Context(), schedule.NewCycleState(), wrong, snapshot.NewNodeInfo(newNode("n"))); n != 0 ||
		statusLine(s) != want {
		t.Errorf("Score: got %d, %s\nwant %s", n, statusLine(s), want)
	}
	if s := pl.PreScore(t.Context(), schedule.NewCycleState(), newPod("p"), nil); !s.IsSkip() {
		t.Errorf("no preference on either side: got %s, want Skip", statusLine(s))
	}
	if e := pl.Evaluator(wrong, &columns.Table{}); e != nil {
		t.Errorf("columns of terms that cannot be read: got %v, want none", e)
	}
}

func TestNodeAffinityExplanations(t *testing.T) {
	pl := expect.Value(nodeaffinity.New(nil))
	n := snapshot.NewNodeInfo(newNode("n", label("a", "1"), label("b", "2")))
	const relax = "label a node so that one of the terms matches, or relax the Pod's node affinity"
	for name, c := range map[string]struct {
		p           *v1.Pod
		detail, fix string
	}{
		"the first by name": {newPod("p", selects("b=1", "c=1", "a=1")), "nodeSelector wants b=1, node has b=2",
			"kubectl label node n b=1 --overwrite"},
		"a missing label": {newPod("p", selects("c=1")), "nodeSelector wants c=1, node has no label c",
			"kubectl label node n c=1 --overwrite"},
		"a term each": {newPod("p", mustBeIn(term(expression("a", "In", "1"), expression("b", "In", "3", "4")),
			term(expression("c", "Exists"), expression("b", "In", "9")))),
			"node affinity wants b In [3 4] (node has b=2), or c Exists [] (node has no label c)", relax},
		"a name": {newPod("p", mustBeIn(named("m"))), "node affinity wants metadata.name In [m]", relax},
		"its own and another": {newPod("p", mustBeIn(v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{
			expression("metadata.name", "In", "n"), expression("metadata.name", "NotIn", "n")}})),
			"node affinity wants metadata.name NotIn [n]", relax},
		"nothing": {newPod("p", selects("a=1")), "", ""},
	} {
		e := pl.Explain(t.Context(), schedule.NewCycleState(), c.p, n)
		if e.Detail != c.detail || e.Fix != c.fix || string(e.Code) != "LabelsNotMatched" {
			t.Errorf("%s:\n got %s: %s | %s\nwant %s | %s", name, e.Code, e.Detail, e.Fix, c.detail, c.fix)
		}
	}
}

// withoutPods is a node that does not say who is on it.
type withoutPods struct{ framework.NodeInfo }

func (withoutPods) GetPods() []framework.PodInfo { return nil }

func TestHostPortExplanations(t *testing.T) {
	pl := nodeports.New()
	p := newPod("p", func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 79}, {HostPort: 80}, {HostPort: 81}}
	})
	n := snapshot.NewNodeInfo(newNode("n"), podInfo(newPod("none")), podInfo(newPod("first", hostPort(80))),
		podInfo(newPod("second", hostPort(80))))
	if e := pl.Explain(t.Context(), schedule.NewCycleState(), p, n); e.Detail != "host port 80 is taken by ns/first" ||
		string(e.Code) != "PortTaken" {
		t.Errorf("got %+v", e)
	}
	if e := pl.Explain(t.Context(), schedule.NewCycleState(), p,
		withoutPods{n}); e.Detail != "host port 80 is taken by another Pod" {
		t.Errorf("got %+v", e)
	}
}
