package schedule_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the transcripts in testdata")

// print renders a Result as a person would want to read it.
func print(r *schedule.Result) string {
	var b bytes.Buffer
	f := r.Fact()
	fmt.Fprintf(&b, "%d nodes, %d visited, %d fit\n", f.Nodes, f.Visited, f.Feasible)
	if f.Winner != "" {
		fmt.Fprintf(&b, "winner %s, runner-up %q %d behind, %d share the top\n", f.Winner, f.RunnerUp, r.Lead, f.Ties)
	} else {
		fmt.Fprintf(&b, "%s\n", f.Message)
	}
	for _, s := range f.Scores {
		fmt.Fprintf(&b, "  %-4s %4d", s.Node, s.Total)
		for _, p := range s.Parts {
			fmt.Fprintf(&b, "  %s %d>%d*%d", p.Plugin, p.Raw, p.Norm, p.Weight)
		}
		b.WriteString("\n")
	}
	for i, no := range f.Refusals {
		if i == 12 {
			fmt.Fprintf(&b, "  and %d more in full\n", len(f.Refusals)-i)
			break
		}
		fmt.Fprintf(&b, "  %-4s no: %s (%s): %s [%s; %s]\n", no.Node, no.Plugin, no.Code,
			strings.Join(no.Messages, ", "), no.Detail, no.Fix)
	}
	for _, c := range f.Counted {
		fmt.Fprintf(&b, "  %d more: %s (%s): %s\n", c.Nodes, c.Plugin, c.Code, strings.Join(c.Messages, ", "))
	}
	return b.String()
}

func labels(pairs ...string) func(*v1.Node) {
	return func(n *v1.Node) {
		for _, p := range pairs {
			k, v, _ := strings.Cut(p, "=")
			n.Labels[k] = v
		}
	}
}

func tainted(t v1.Taint) func(*v1.Node) {
	return func(n *v1.Node) { n.Spec.Taints = append(n.Spec.Taints, t) }
}

func onNode(node string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeName = node }
}

// webPod is FEATURES E-02.
func webPod(name string) *v1.Pod {
	return pod(name, "250m", "256Mi", func(p *v1.Pod) {
		p.Labels = map[string]string{"app": "web"}
		p.Spec.Affinity = &v1.Affinity{
			NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
					{Key: "kubernetes.io/arch", Operator: v1.NodeSelectorOpIn, Values: []string{"amd64"}},
					{Key: "node.acme.io/pool", Operator: v1.NodeSelectorOpIn, Values: []string{"general"}}}}}}}}
		p.Spec.Tolerations = []v1.Toleration{{Key: "dedicated", Operator: v1.TolerationOpEqual, Value: "web",
			Effect: v1.TaintEffectNoSchedule}}
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone,
			WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	})
}

func zoneNodes(z string) []func(*v1.Node) {
	return []func(*v1.Node){zone(z), labels("kubernetes.io/arch=amd64", "node.acme.io/pool=general")}
}

func transcriptInputs() map[string]schedule.Input {
	web := v1.Taint{Key: "dedicated", Value: "web", Effect: v1.TaintEffectNoSchedule}
	three := snapshot.Of([]*v1.Node{node("n1", "4", "8Gi"), node("n2", "4", "8Gi"), node("n3", "2", "8Gi")},
		[]*v1.Pod{pod("old", "2", "1Gi", onNode("n1"))})
	twelve := make([]*v1.Node, 0, 12)
	var full []*v1.Pod
	for i := range 12 {
		switch name := fmt.Sprintf("n%d", i+1); {
		case i < 4:
			twelve = append(twelve, node(name, "4", "8Gi", zoneNodes("a")...))
			full = append(full, pod("full-"+name, "4", "", onNode(name)))
		case i < 7:
			twelve = append(twelve,
				node(name, "4", "8Gi", zone("a"), labels("kubernetes.io/arch=arm64", "node.acme.io/pool=general")))
		default:
			twelve = append(twelve,
				node(name, "4", "8Gi",
					append(zoneNodes("a"),
						tainted(v1.Taint{Key: "gpu", Value: "yes", Effect: v1.TaintEffectNoSchedule}))...))
		}
	}
	many := make([]*v1.Node, 0, 150)
	for i := range 150 {
		many = append(many, node(fmt.Sprintf("n%03d", i), "1", "1Gi"))
	}
	return map[string]schedule.Input{
		"emptiest node wins":       {Pod: pod("p", "1", "1Gi"), Snapshot: three},
		"what if n2 were gone":     {Pod: pod("p", "1", "1Gi"), Snapshot: three.Without("n2")},
		"asks too much everywhere": {Pod: pod("p", "5", "1Gi"), Snapshot: three},
		"only one fits":            {Pod: pod("p", "3", "1Gi"), Snapshot: three},
		"E-02 affinity, toleration, spread": {Pod: webPod("web-7d8"), Snapshot: snapshot.Of([]*v1.Node{
			node("n1", "4", "8Gi", append(zoneNodes("a"), tainted(web))...), node("n2", "4", "8Gi", zoneNodes("b")...),
			node("n3", "4", "8Gi", zoneNodes("c")...),
			node("n4", "4", "8Gi", zone("c"), labels("kubernetes.io/arch=arm64", "node.acme.io/pool=general")),
		}, []*v1.Pod{webPodOn("n1"), webPodOn("n2")})},
		"E-03 twelve nodes": {Pod: webPod("web-7d8"), Snapshot: snapshot.Of(twelve, full)},
		"many refuse":       {Pod: pod("p", "2", "2Gi"), Snapshot: snapshot.Of(many, nil)},
	}
}

func webPodOn(n string) *v1.Pod {
	p := webPod("web-" + n)
	p.Spec.NodeName = n
	return p
}

// row: FIL-24, FIL-23, SCO-01, SCO-02, SCO-03, SCO-19, SCO-20
// row: FIL-25
func TestTranscripts(t *testing.T) {
	for name, in := range transcriptInputs() {
		in.Plugins = defaultPlugins(t)
		got := print(schedule.SchedulePod(t.Context(), in))
		file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".txt")
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("%s: run with -rewrite if this is meant:\n%s\nwas\n%s", name, got, want)
		}
	}
}

// Each reason of each node counts, those of nodes that were not asked too, and they are sorted as
// texts: upstream's order.
//
// row: FIL-23, FIL-24, FIL-25
func TestReasonsAreCountedAndSorted(t *testing.T) {
	refusal := func(reasons ...string) *framework.Status {
		return framework.NewStatus(framework.Unschedulable, reasons...)
	}
	var statuses []*framework.Status
	for range 10 {
		statuses = append(statuses, refusal("Too many pods"))
	}
	statuses = append(statuses, refusal("Insufficient cpu", "Insufficient memory"), refusal("Insufficient cpu"),
		refusal("node(s) were unschedulable"))
	for absentees, want := range map[int]string{
		0: "1 Insufficient memory, 1 node(s) were unschedulable, 10 Too many pods, 2 Insufficient cpu",
		3: "1 Insufficient memory, 1 node(s) were unschedulable, 10 Too many pods, 2 Insufficient cpu, 3 not asked",
	} {
		if got := strings.Join(schedule.CountReasons(statuses, refusal("not asked"), absentees), ", "); got != want {
			t.Errorf("%d not asked: got %s\nwant %s", absentees, got, want)
		}
	}
}

// The total of each node is the sum of its weighted parts, and the runner-up is the second best.
//
// row: SCO-03, SCO-19, SCO-20
// row: SCH-32
func TestPartsAddUpToTheTotal(t *testing.T) {
	soft := tainted(v1.Taint{Key: "busy", Effect: v1.TaintEffectPreferNoSchedule})
	snap := snapshot.Of([]*v1.Node{node("n1", "4", "8Gi", soft), node("n2", "8", "8Gi"), node("n3", "2", "8Gi"),
		node("n4", "6", "16Gi", soft)}, []*v1.Pod{pod("old", "2", "1Gi", onNode("n1"))})
	for form, cache := range map[string]*schedule.EquivalenceCache{"plain": nil, "from memory": {}} {
		r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: pod("p", "1", "1Gi"), Snapshot: snap,
			Plugins: defaultPlugins(t), Cache: cache})
		scores := r.Scores(4)
		if len(scores) != 4 {
			t.Fatalf("%s: %d nodes scored, want 4", form, len(scores))
		}
		for i, s := range scores {
			sum := int64(0)
			for _, part := range s.Parts {
				sum += part.Weighted
			}
			if sum != s.Total {
				t.Errorf("%s: parts of %s add up to %d, want %d: %+v", form, s.Node, sum, s.Total, s.Parts)
			}
			if s.Total > scores[0].Total || i > 1 && s.Total > scores[1].Total {
				t.Errorf("%s: %s has %d, more than the winner's %d or the runner-up's %d", form, s.Node, s.Total,
					scores[0].Total, scores[1].Total)
			}
		}
		if r.SuggestedHost != scores[0].Node || r.RunnerUp != scores[1].Node ||
			r.Lead != scores[0].Total-scores[1].Total {
			t.Errorf("%s: runner-up %s, %d behind %s, want %s, %d behind %s", form, r.RunnerUp, r.Lead, r.SuggestedHost,
				scores[1].Node, scores[0].Total-scores[1].Total, scores[0].Node)
		}
	}
}

// row: SCO-11, SCO-14
func TestNumFeasibleNodesToFind(t *testing.T) {
	for _, c := range []struct {
		sample  schedule.Sample
		n, want int
	}{
		{schedule.Sample{}, 5000, 5000},
		{schedule.Sample{Percent: schedule.AdaptivePercentage}, 99, 99},
		{schedule.Sample{Percent: schedule.AdaptivePercentage}, 100, 100}, // 49 % would be fewer than 100
		{schedule.Sample{Percent: schedule.AdaptivePercentage}, 250, 120},
		{schedule.Sample{Percent: schedule.AdaptivePercentage}, 312, 149},
		{schedule.Sample{Percent: schedule.AdaptivePercentage}, 1000, 420},
		{schedule.Sample{Percent: schedule.AdaptivePercentage}, 5000, 500},
		{schedule.Sample{Percent: schedule.AdaptivePercentage}, 6000, 300},
		{schedule.Sample{Percent: 5, AtLeast: 1}, 300, 15},
		{schedule.Sample{Percent: 5}, 300, 100},
		{schedule.Sample{Percent: 100}, 300, 300},
	} {
		if got := c.sample.NumFeasibleNodesToFind(c.n); got != c.want {
			t.Errorf("%+v of %d nodes: %d, want %d", c.sample, c.n, got, c.want)
		}
	}
}

// row: FIL-26, SCO-13, SCO-15
func TestSampleIsFairAndTheSameForAnyRunner(t *testing.T) {
	var nodes []*v1.Node
	for i := range 400 {
		nodes = append(nodes, node(fmt.Sprintf("n%03d", i), "4", "8Gi"))
	}
	in := schedule.Input{Pod: pod("p", "1", "1Gi"), Snapshot: snapshot.Of(nodes, nil), Plugins: defaultPlugins(t),
		Sample: schedule.Sample{Percent: 10, AtLeast: 1}}
	times := map[string]int{}
	for i := range 1000 {
		in.Parallel = nil
		r := schedule.SchedulePod(t.Context(), in)
		if r.EvaluatedNodes != 40 || r.Feasible() != 40 {
			t.Fatalf("visited %d, %d fit, want 40", r.EvaluatedNodes, r.Feasible())
		}
		if i < 20 {
			in.Parallel = inParallel
			if other := schedule.SchedulePod(t.Context(), in); other.SuggestedHost != r.SuggestedHost ||
				other.EvaluatedNodes != r.EvaluatedNodes {
				t.Fatalf("the runner changes the result: %s or %s", r.SuggestedHost, other.SuggestedHost)
			}
		}
		for _, s := range r.Scores(400) {
			times[s.Node]++
		}
		in.Sample.StartsAt += r.EvaluatedNodes
	}
	for name, n := range times {
		if n != 100 {
			t.Errorf("%s was scored %d times in 1000, want 100", name, n)
		}
	}
}

type fakePlugin struct {
	name  string
	code  framework.Code
	score int64
}

func (j fakePlugin) Name() string { return j.name }

func (j fakePlugin) Filter(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) *framework.Status {
	return framework.NewStatus(j.code, "says "+j.name)
}

func (j fakePlugin) Score(context.Context, framework.CycleState, *v1.Pod,
	framework.NodeInfo) (int64, *framework.Status) {
	return j.score, nil
}

func (fakePlugin) ScoreExtensions() framework.ScoreExtensions { return nil }

// row: SCH-06, SCH-07, SCH-08, SCH-09, SCO-01
// row: SCO-02
func TestStatusesAndRanges(t *testing.T) {
	hostile := func(n *v1.Node) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = []v1.Taint{{Key: "gone", Effect: v1.TaintEffectNoExecute},
			{Key: "no", Effect: v1.TaintEffectNoSchedule}}
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionFalse}}
		n.Status.Allocatable[v1.ResourcePods] = *quantity(0)
	}
	w := snapshot.Of([]*v1.Node{node("a", "1", "1Gi", hostile), node("b", "1", "1Gi")}, nil)
	for form, fresh := range map[string]func() *schedule.EquivalenceCache{
		"plain":       func() *schedule.EquivalenceCache { return nil },
		"from memory": func() *schedule.EquivalenceCache { return &schedule.EquivalenceCache{} }} {
		t.Run(form, func(t *testing.T) {
			statusesAndRanges(t, func(seats ...schedule.WeightedPlugin) *schedule.Result {
				return schedule.SchedulePod(t.Context(), schedule.Input{Pod: pod("p", "9", ""), Snapshot: w,
					Cache: fresh(), Plugins: schedule.NewPluginSet("test", seats...)})
			})
		})
	}
}

func statusesAndRanges(t *testing.T, one func(seats ...schedule.WeightedPlugin) *schedule.Result) {
	t.Helper()
	if r := one(); !r.Scheduled() || r.Feasible() != 2 {
		t.Errorf("without plugins: got %d of 2 nodes that fit, want both: %s", r.Feasible(), r.Message())
	}
	r := one(schedule.WeightedPlugin{Plugin: fakePlugin{"X", framework.Unschedulable, 0}},
		schedule.WeightedPlugin{Plugin: fakePlugin{"Y", framework.Error, 0}})
	if want := "0/2 nodes are available: 2 says X."; r.Message() != want || !r.UnschedulablePlugins.Has("X") ||
		r.UnschedulablePlugins.Has("Y") {
		t.Errorf("the first no ends the questions about a node: %q by %v", r.Message(), r.UnschedulablePlugins)
	}
	r = one(schedule.WeightedPlugin{Plugin: fakePlugin{"X", framework.Pending, 0}})
	if !r.PendingPlugins.Has("X") || len(r.UnschedulablePlugins) != 0 {
		t.Errorf("pending %v, rejectors %v", r.PendingPlugins, r.UnschedulablePlugins)
	}
	r = one(schedule.WeightedPlugin{Plugin: fakePlugin{"Y", framework.Error, 0}})
	if want := `running "Y" filter plugin: says Y`; !r.Failed() || r.Message() != want {
		t.Errorf("an error ends the cycle: %q", r.Message())
	}
	r = one(schedule.WeightedPlugin{Plugin: fakePlugin{"Z", framework.Success, 101}})
	if want := `applying score defaultWeights on Score plugins: plugin "Z" returns an invalid score 101, it should ` +
		`in ` +
		`the range of [0, 100] after normalizing`; r.Message() != want {
		t.Errorf("got %q", r.Message())
	}
	r = one(schedule.WeightedPlugin{Plugin: fakePlugin{"Z", framework.Success, -1}})
	if want := `returns an invalid score -1, it should in the range of [0, 100]`; !strings.Contains(r.Message(), want) {
		t.Errorf("got %q, want it with %s", r.Message(), want)
	}
	for _, score := range []int64{0, 100} {
		if r = one(schedule.WeightedPlugin{Plugin: fakePlugin{"Z", framework.Success, score}}); !r.Scheduled() {
			t.Errorf("score %d: %s, want a node", score, r.Message())
		}
	}
	r = one(schedule.WeightedPlugin{Plugin: fakePlugin{"A", framework.Success, 7}, Weight: 5},
		schedule.WeightedPlugin{Plugin: fakePlugin{"B", framework.Success, 1}})
	if s := r.Scores(1)[0]; s.Total != 36 {
		t.Errorf("total %d, want 7*5+1", s.Total)
	}
}

// skipper skips at PreFilter or PreScore, and refuses or scores where it is asked all the same.
type skipper struct {
	fakePlugin
	preFilter, preScore *framework.Status
}

func (s skipper) PreFilter(context.Context, framework.CycleState, *v1.Pod,
	[]framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	return nil, s.preFilter
}

func (skipper) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func (s skipper) PreScore(context.Context, framework.CycleState, *v1.Pod, []framework.NodeInfo) *framework.Status {
	return s.preScore
}

// A plugin that skips the Pod before Filter or Score is not asked there, and the others are.
//
// row: SCH-07
func TestSkippedPluginsAreNotAsked(t *testing.T) {
	w := snapshot.Of([]*v1.Node{node("a", "1", "1Gi"), node("b", "1", "1Gi")}, nil)
	skip := framework.NewStatus(framework.Skip)
	other := fakePlugin{"other", framework.Success, 5}
	for name, c := range map[string]struct {
		pl   skipper
		want string
	}{
		"success at both": {skipper{fakePlugin{"X", framework.Success, 7}, nil, nil}, "a 12, b 12"},
		"skips PreFilter": {skipper{fakePlugin{"X", framework.Unschedulable, 7}, skip, nil}, "a 12, b 12"},
		"skips PreScore":  {skipper{fakePlugin{"X", framework.Success, 7}, nil, skip}, "a 5, b 5"},
		"skips both":      {skipper{fakePlugin{"X", framework.Unschedulable, 7}, skip, skip}, "a 5, b 5"},
		"refuses": {skipper{fakePlugin{"X", framework.Unschedulable, 7}, nil, nil},
			"0/2 nodes are available: 2 says X."},
	} {
		for form, cache := range map[string]*schedule.EquivalenceCache{"plain": nil, "from memory": {}} {
			r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: pod("p", "1", ""), Snapshot: w, Cache: cache,
				Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: c.pl, Weight: 1},
					schedule.WeightedPlugin{Plugin: other, Weight: 1})})
			got := r.Message()
			if r.Scheduled() {
				var parts []string
				for _, s := range r.Scores(2) {
					parts = append(parts, fmt.Sprint(s.Node, " ", s.Total))
				}
				got = strings.Join(parts, ", ")
			}
			if got != c.want {
				t.Errorf("%s, %s: got %q, want %q", name, form, got, c.want)
			}
		}
	}
}

// row: SCH-12
func TestNeverOvercommits(t *testing.T) {
	pluginSet := defaultPlugins(t)
	rapid.Check(t, func(t *rapid.T) {
		w := snapshot.NewCache()
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			w.SetNode(node(fmt.Sprintf("n%d", i), fmt.Sprintf("%dm", rapid.IntRange(1, 4000).Draw(t, "cpu")),
				fmt.Sprintf("%dMi", rapid.IntRange(1, 4000).Draw(t, "memory")),
				func(n *v1.Node) {
					n.Status.Allocatable[v1.ResourcePods] = *quantity(rapid.IntRange(1, 6).Draw(t, "pods"))
				}))
		}
		type amounts struct{ milliCPU, bytes, pods int64 }
		taken := map[string]amounts{} // by node, of what was assumed
		for i := range rapid.IntRange(1, 30).Draw(t, "number of Pods") {
			p := pod(fmt.Sprintf("p%d", i), fmt.Sprintf("%dm", rapid.IntRange(0, 2000).Draw(t, "asks cpu")),
				fmt.Sprintf("%dMi", rapid.IntRange(0, 2000).Draw(t, "asks memory")))
			in := schedule.Input{Pod: p, Snapshot: w.UpdateSnapshot(), Plugins: pluginSet,
				PickTie: func(n int) int { return i % n }}
			r := schedule.SchedulePod(context.Background(), in)
			again := schedule.SchedulePod(context.Background(), in)
			if a, b := journalFact(r), journalFact(again); !reflect.DeepEqual(a, b) {
				t.Fatalf("equal input, two results:\n%s\n%s", a, b)
			}
			if !r.Scheduled() {
				continue
			}
			if err := w.AssumePod(p, r.SuggestedHost); err != nil {
				t.Fatal(err)
			}
			asks, on := p.Spec.Containers[0].Resources.Requests, taken[r.SuggestedHost]
			taken[r.SuggestedHost] = amounts{on.milliCPU + asks.Cpu().MilliValue(), on.bytes + asks.Memory().Value(),
				on.pods + 1}
		}
		for _, n := range w.UpdateSnapshot().All() {
			used, room := taken[n.Node().Name], n.GetAllocatable()
			if used.milliCPU > room.GetMilliCPU() || used.bytes > room.GetMemory() ||
				used.pods > int64(room.GetAllowedPodNumber()) {
				t.Fatalf("over-committed: %+v on %s", used, n)
			}
		}
	})
}

func journalFact(r *schedule.Result) string {
	raw, err := json.Marshal(r.Fact())
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestNominatedPodsKeepTheirRoom(t *testing.T) {
	w := snapshot.Of([]*v1.Node{node("a", "2", "8Gi")}, nil)
	nominations := pod("promised", "2", "", func(p *v1.Pod) { p.Spec.Priority = new(int32(5)) })
	info, err := snapshot.NewPodInfo(nominations)
	if err != nil {
		t.Fatal(err)
	}
	nominated := func(string) []framework.PodInfo { return []framework.PodInfo{info} }
	for priority, fits := range map[int32]bool{4: false, 5: false, 6: true} {
		p := pod("p", "1", "", func(p *v1.Pod) { p.Spec.Priority = &priority })
		r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: p, Snapshot: w, Plugins: defaultPlugins(t),
			NominatedPodsForNode: nominated})
		if r.Scheduled() != fits {
			t.Errorf("priority %d fits: %v, want %v", priority, r.Scheduled(), fits)
		}
	}
	if r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: nominations, Snapshot: w, Plugins: defaultPlugins(t),
		NominatedPodsForNode: nominated}); !r.Scheduled() {
		t.Errorf("the promised Pod itself: %s", r.Message())
	}
}
