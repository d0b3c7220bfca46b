package preemption_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/preemption"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/expect"
)

// searchInput is what a search for a Pod that fits nowhere is made from.
func searchInput(t *testing.T, p *v1.Pod, nodes []*v1.Node, pods []*v1.Pod) preemption.Input {
	t.Helper()
	in := schedule.Input{Pod: p, Snapshot: snapshot.Of(nodes, pods),
		Plugins: expect.Value(plugins.DefaultPluginSet("test", nil))}
	r := schedule.SchedulePod(t.Context(), in)
	in.State = r.State
	return preemption.Input{Input: in, NodeToStatus: r.NodeToStatus(), Percent: 10, Absolute: 100}
}

// Candidates are compared by one figure after the other, the first that differs counts.
//
// row: BND-11
func TestTheCheapestVictims(t *testing.T) {
	covering := func(allowed int32, change func(*policy.PodDisruptionBudget)) *policy.PodDisruptionBudget {
		b := pdb("a", allowed)
		change(b)
		return b
	}
	as := func(app string) func(*v1.Pod) { return func(p *v1.Pod) { p.Labels = map[string]string{"app": app} } }
	bare := func(p *v1.Pod) { p.Labels = nil }
	unstarted := func(p *v1.Pod) { p.Status.StartTime = nil }
	for name, c := range map[string]struct {
		pods    []*v1.Pod
		budgets []*policy.PodDisruptionBudget
		want    string
	}{
		"the sum, of as many": {[]*v1.Pod{pod("a n1 5 2 1"), pod("b n1 4 2 1"), pod("c n2 5 2 1"), pod("d n2 3 2 1")},
			nil,
			"n2 [c d]"},
		"fewer, of less in sum": {[]*v1.Pod{pod("a n1 5 4 1"), pod("c n2 5 2 1"), pod("d n2 -5 2 1")}, nil, "n1 [a]"},
		"the first start of the most important": {[]*v1.Pod{pod("a n1 5 2 100"), pod("b n1 5 2 300"),
			pod("c n2 5 2 200"),
			pod("d n2 5 2 250")}, nil, "n2 [c d]"},
		"the start of less important ones does not count": {[]*v1.Pod{pod("a n1 5 2 200"), pod("b n1 4 2 100"),
			pod("c n2 5 2 150"), pod("d n2 4 2 400")}, nil, "n1 [a b]"},
		"one that has not started lost least": {[]*v1.Pod{pod("a n1 5 4 200"), pod("b n2 5 4 1", unstarted)}, nil,
			"n2 [b]"},
		"a fraction of a second": {[]*v1.Pod{pod("a n1 5 4 200"), pod("b n2 5 4 200", func(p *v1.Pod) {
			p.Status.StartTime.Time = p.Status.StartTime.Add(time.Millisecond)
		})}, nil, "n2 [b]"},
		"fewer broken budgets": {[]*v1.Pod{pod("a1 n1 1 2 1", as("a")), pod("a2 n1 1 2 1", as("a")), pod("a3 n2 5 2 1",
			as("a")),
			pod("b n2 5 2 1")}, []*policy.PodDisruptionBudget{pdb("a", 0)}, "n2 [a3 b] breaks 1"},
		"a budget that allows one": {[]*v1.Pod{pod("a1 n1 1 2 1", as("a")), pod("a2 n1 1 2 1", as("a")),
			pod("b n2 5 4 1")},
			[]*policy.PodDisruptionBudget{pdb("a", 1)}, "n2 [b]"},
		"a budget that allows both": {[]*v1.Pod{pod("a1 n1 1 2 1", as("a")), pod("a2 n1 1 2 1", as("a")),
			pod("b n2 5 4 1")},
			[]*policy.PodDisruptionBudget{pdb("a", 2)}, "n1 [a1 a2]"},
		"of two budgets one allows it": {[]*v1.Pod{pod("a n1 1 4 1"), pod("b n2 5 4 1")},
			[]*policy.PodDisruptionBudget{pdb("a", 1), pdb("a", 0)}, "n2 [b]"},
		"a budget of another namespace": {[]*v1.Pod{pod("a n1 1 4 1"), pod("b n2 5 4 1")},
			[]*policy.PodDisruptionBudget{
				covering(0, func(b *policy.PodDisruptionBudget) { b.Namespace = "other" })}, "n1 [a]"},
		"a budget that has counted it": {[]*v1.Pod{pod("a n1 1 4 1"), pod("b n2 5 4 1")}, []*policy.PodDisruptionBudget{
			covering(0, func(b *policy.PodDisruptionBudget) {
				b.Status.DisruptedPods = map[string]metav1.Time{"a": {}}
			})}, "n1 [a]"},
		"a budget that selects nobody": {[]*v1.Pod{pod("a n1 1 4 1"), pod("b n2 5 4 1")}, []*policy.PodDisruptionBudget{
			covering(0, func(b *policy.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} })}, "n1 [a]"},
		"a Pod without labels": {[]*v1.Pod{pod("a n1 1 4 1", bare), pod("b n2 5 4 1")}, []*policy.PodDisruptionBudget{
			covering(0, func(b *policy.PodDisruptionBudget) {
				b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}}}
			})}, "n1 [a]"},
	} {
		in := searchInput(t, pod("p - 10 4 0"), []*v1.Node{node("n1"), node("n2")}, c.pods)
		in.Budgets = c.budgets
		got, err := preemption.Preempt(t.Context(), in)
		if text := show(got); text != c.want || err != nil || got.Candidates != 2 {
			t.Errorf("%s: %s of %d, %v, want %s of 2", name, text, got.Candidates, err, c.want)
		}
	}
	in := searchInput(t, pod("p - 10 4 0"), []*v1.Node{node("n1")}, []*v1.Pod{pod("a n1 1 4 1")})
	in.Budgets = []*policy.PodDisruptionBudget{covering(0, func(b *policy.PodDisruptionBudget) {
		b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
	})}
	if got, err := preemption.Preempt(t.Context(), in); err == nil || got.Node != "" ||
		!strings.HasPrefix(err.Error(), "selector of PodDisruptionBudget ns/a: ") {
		t.Errorf("a selector that cannot be read: got %s, %v, want an error that names the budget", show(got), err)
	}
}

// Nodes are tried from one on until there are enough candidates, and on until one breaks no budget.
func TestHowManyNodesAreTried(t *testing.T) {
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i := range 20 {
		name := fmt.Sprintf("n%02d", i)
		nodes = append(nodes, node(name))
		pods = append(pods, pod(fmt.Sprintf("v%02d %s 1 4 1", i, name), func(p *v1.Pod) {
			p.Labels = map[string]string{"app": map[bool]string{true: "late", false: "early"}[i >= 7]}
		}))
	}
	for name, c := range map[string]struct {
		percent, absolute int32
		from              int
		budgets           []*policy.PodDisruptionBudget
		want              string
		candidates        int
	}{
		"a part of them":         {50, 1, 0, nil, "n00", 10},
		"a part, rounded down":   {19, 1, 0, nil, "n00", 3},
		"at least so many":       {10, 5, 0, nil, "n00", 5},
		"no more than there are": {10, 100, 0, nil, "n00", 20},
		"at least one":           {0, 0, 0, nil, "n00", 1},
		"from another":           {0, 0, 13, nil, "n13", 1},
		"round the end":          {0, 5, 18, nil, "n18", 5},
		"until one is harmless":  {0, 2, 0, []*policy.PodDisruptionBudget{pdb("early", 0)}, "n07", 8},
		"none is harmless":       {0, 2, 0, []*policy.PodDisruptionBudget{pdb("early", 0), pdb("late", 0)}, "n00", 20},
		"the first is harmless":  {0, 2, 7, []*policy.PodDisruptionBudget{pdb("early", 0)}, "n07", 2},
	} {
		in := searchInput(t, pod("p - 10 4 0"), nodes, pods)
		in.Percent, in.Absolute, in.Budgets = c.percent, c.absolute, c.budgets
		in.PickTie = func(n int) int {
			if n != 20 {
				t.Errorf("%s: asked for one of %d, want 20", name, n)
			}
			return c.from
		}
		got, err := preemption.Preempt(t.Context(), in)
		if err != nil || got.Node != c.want || got.Candidates != c.candidates {
			t.Errorf("%s: got %s of %d, %v, want %s of %d", name, got.Node, got.Candidates, err, c.want, c.candidates)
		}
		if in.PickTie = nil; c.from == 0 {
			if again, err := preemption.Preempt(t.Context(), in); err != nil || len(preemption.Differences(again,
				got)) > 0 {
				t.Errorf("%s, without a choice: got %s, %v, want %s", name, show(again), err, show(got))
			}
		}
	}
}

// Extenders may leave candidates out and spare victims; what they say is compared anew.
func TestExtendersReviewCandidates(t *testing.T) {
	pods := []*v1.Pod{pod("a n1 1 2 1"), pod("b n1 2 2 1"), pod("c n2 5 2 1"), pod("d n2 6 2 1")}
	type review = map[string]*extenderv1.Victims
	for name, c := range map[string]struct {
		answer func(review) (review, error)
		want   string
		of     int
		err    string
	}{
		"all":            {func(r review) (review, error) { return r, nil }, "n1 [b a]", 2, ""},
		"none":           {func(review) (review, error) { return nil, nil }, "no candidate node for preemption", 0, ""},
		"the dearer one": {func(r review) (review, error) { return review{"n2": r["n2"]}, nil }, "n2 [d c]", 1, ""},
		"fewer victims": {func(r review) (review, error) {
			r["n2"].Pods = nil
			return r, nil
		}, "n2 []", 2, ""},
		"in another order": {func(r review) (review, error) {
			slices.Reverse(r["n1"].Pods)
			return r, nil
		}, "n1 [b a]", 2, ""},
		"it breaks a budget": {func(r review) (review, error) {
			r["n1"].NumPDBViolations = 1
			return r, nil
		}, "n2 [d c]", 2, ""},
		"all break one": {func(r review) (review, error) {
			r["n1"].NumPDBViolations, r["n2"].NumPDBViolations = 2, 1
			return r, nil
		}, "n2 [d c] breaks 1", 2, ""},
		"a node that was not asked about": {func(review) (review, error) { return review{"n3": {}}, nil },
			"no candidate node for preemption", 0, ""},
		"it fails": {func(review) (review, error) { return nil, errors.New("down") }, "", 0, "down"},
	} {
		in := searchInput(t, pod("p - 10 4 0"), []*v1.Node{node("n1"), node("n2")}, pods)
		in.ProcessExtenders = func(victims map[string]*extenderv1.Victims) (map[string]*extenderv1.Victims, error) {
			if len(victims) != 2 || len(victims["n1"].Pods) != 2 || victims["n1"].NumPDBViolations != 0 {
				t.Errorf("%s: asked about %v, want two nodes with two victims each", name, victims)
			}
			return c.answer(victims)
		}
		got, err := preemption.Preempt(t.Context(), in)
		text := show(got)
		if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err || text != c.want ||
			got.Candidates != c.of {
			t.Errorf("%s: got %s of %d, %v, want %s of %d, %s", name, text, got.Candidates, err, c.want, c.of, c.err)
		}
	}
}

// A Pod waits for victims of its own that still leave its node, and for no others.
//
// row: BND-12
func TestWhoWaitsForVictims(t *testing.T) {
	leaving := func(change ...func(*v1.Pod)) *v1.Pod {
		return pod("a n1 1 4 1", append([]func(*v1.Pod){func(p *v1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue},
				{Type: v1.DisruptionTarget,
					Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
		}}, change...)...)
	}
	for name, c := range map[string]struct {
		there  *v1.Pod
		on     string
		cordon bool
		want   string
	}{
		"its victim leaves":    {leaving(), "n1", false, preemption.TerminatingVictims},
		"of the same priority": {leaving(func(p *v1.Pod) { *p.Spec.Priority = 10 }), "n1", false, ""},
		"just below": {leaving(func(p *v1.Pod) { *p.Spec.Priority = 9 }), "n1", false,
			preemption.TerminatingVictims},
		"it stays": {leaving(func(p *v1.Pod) { p.DeletionTimestamp = nil }), "n1", false, ""},
		"for another reason": {leaving(func(p *v1.Pod) { p.Status.Conditions[1].Reason = "EvictionByEvictionAPI" }),
			"n1", false, ""},
		"the condition is past": {leaving(func(p *v1.Pod) { p.Status.Conditions[1].Status = v1.ConditionFalse }), "n1",
			false, ""},
		"another condition":  {leaving(func(p *v1.Pod) { p.Status.Conditions[1].Type = "Other" }), "n1", false, ""},
		"on another node":    {leaving(), "n2", false, ""},
		"its node is gone":   {leaving(), "gone", false, ""},
		"no node":            {leaving(), "", false, ""},
		"its node is closed": {leaving(), "n1", true, ""},
	} {
		n1 := node("n1", func(n *v1.Node) { n.Spec.Unschedulable = c.cordon })
		p := pod("p - 10 1 0", func(p *v1.Pod) { p.Status.NominatedNodeName = c.on })
		in := searchInput(t, p, []*v1.Node{n1, node("n2")}, []*v1.Pod{c.there})
		if why, ok := preemption.PodEligibleToPreemptOthers(in); why != c.want || ok != (c.want == "") {
			t.Errorf("%s: got %q %t, want %q", name, why, ok, c.want)
		}
		if c.cordon {
			continue // a group asks its node at any rate
		}
		got, err := preemption.PreemptForPodGroup(t.Context(), preemption.PodGroupInput{Pods: []*v1.Pod{p}, MinCount: 1,
			Priority: 10, Snapshot: in.Snapshot, Plugins: in.Plugins})
		if err != nil || (got.Message == preemption.TerminatingVictims) != (c.want != "") {
			t.Errorf("%s, of a group: got %+v, %v, want %q", name, got, err, c.want)
		}
	}
}

// A group has room made for as many as it needs, at the cost of those alone who stand in the way.
//
// row: BND-11
func TestPreemptionForAPodGroup(t *testing.T) {
	type together = map[types.UID][]types.UID
	never := func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) }
	on := func(name string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelHostname: name} }
	}
	for name, c := range map[string]struct {
		group    []*v1.Pod
		min      int
		pods     []*v1.Pod
		budgets  []*policy.PodDisruptionBudget
		together together
		want     string
	}{
		"both of both": {[]*v1.Pod{pod("p1 - 10 2 0"), pod("p2 - 10 2 0")}, 2,
			[]*v1.Pod{pod("a n1 1 2 1"), pod("b n1 2 2 1"), pod("x n2 20 4 1")}, nil, nil, "p1=n1 p2=n1 [b a] of 2"},
		"one of both will do": {[]*v1.Pod{pod("p1 - 10 2 0"), pod("p2 - 10 2 0")}, 1,
			[]*v1.Pod{pod("a n1 1 2 1"), pod("b n1 2 2 1"), pod("x n2 20 4 1")}, nil, nil, "p1=n1 [a] of 1"},
		"nobody is below": {[]*v1.Pod{pod("p1 - 10 2 0")}, 1, []*v1.Pod{pod("a n1 10 4 1"), pod("x n2 20 4 1")}, nil,
			nil,
			preemption.NoGroupVictims},
		"too large for all": {[]*v1.Pod{pod("p1 - 10 3 0"), pod("p2 - 10 3 0")}, 2,
			[]*v1.Pod{pod("a n1 1 4 1"), pod("x n2 20 4 1")}, nil, nil, preemption.NoGroupVictims},
		"one makes no one leave": {[]*v1.Pod{pod("p1 - 10 2 0"), pod("p2 - 10 2 0", never)}, 1,
			[]*v1.Pod{pod("a n1 1 4 1")}, nil, nil, preemption.PolicyNever},
		"who is elsewhere stays": {[]*v1.Pod{pod("p1 - 10 4 0", on("n1"))}, 1,
			[]*v1.Pod{pod("a n1 1 4 1"), pod("b n2 1 4 1")}, nil, nil, "p1=n1 [a] of 1"},
		"two leave together": {[]*v1.Pod{pod("p1 - 10 4 0", on("n1"))}, 1, []*v1.Pod{pod("a n1 1 4 1"),
			pod("b n2 2 4 1")},
			nil, together{"a": {"a", "b"}, "b": {"a", "b"}}, "p1=n1 [b a] of 1"},
		"of two that leave together one is not below": {[]*v1.Pod{pod("p1 - 10 4 0", on("n1"))}, 1,
			[]*v1.Pod{pod("a n1 1 4 1"), pod("b n2 10 4 1")}, nil, together{"a": {"a", "b"}},
			preemption.NoGroupVictims},
		"of three the last is": {[]*v1.Pod{pod("p1 - 10 4 0", on("n1"))}, 1,
			[]*v1.Pod{pod("a n1 1 4 1"), pod("b n2 20 2 1"), pod("c n2 1 2 1")}, nil, together{"a": {"b", "c"}},
			preemption.NoGroupVictims},
		"together with one that is gone": {[]*v1.Pod{pod("p1 - 10 4 0", on("n1"))}, 1, []*v1.Pod{pod("a n1 1 4 1")},
			nil,
			together{"a": {"a", "gone"}}, "p1=n1 [a] of 1"},
		"at the cost of a budget": {[]*v1.Pod{pod("p1 - 10 4 0", on("n1"))}, 1, []*v1.Pod{pod("a n1 1 4 1")},
			[]*policy.PodDisruptionBudget{pdb("a", 0)}, nil, "p1=n1 [a] of 1 breaks 1"},
		"a budget spares the less important": {[]*v1.Pod{pod("p1 - 10 2 0", on("n1"))}, 1,
			[]*v1.Pod{pod("a n1 1 2 1"), pod("b n1 2 2 1")}, []*policy.PodDisruptionBudget{pdb("a", 0)}, nil,
			"p1=n1 [b] of 1"},
		"it has room": {[]*v1.Pod{pod("p1 - 10 2 0", on("n1"))}, 1, []*v1.Pod{pod("a n1 1 2 1")}, nil, nil,
			"p1=n1 [] of 0"},
	} {
		in := preemption.PodGroupInput{Pods: c.group, MinCount: c.min, Priority: 10, Budgets: c.budgets,
			Snapshot: snapshot.Of([]*v1.Node{node("n1"), node("n2")}, c.pods),
			Plugins:  expect.Value(plugins.DefaultPluginSet("test", nil))}
		if c.together != nil {
			in.DisruptedTogether = func(p *v1.Pod) []types.UID { return c.together[p.UID] }
		}
		got, err := preemption.PreemptForPodGroup(t.Context(), in)
		text := got.Message
		if text == "" {
			var parts, victims []string
			for uid, n := range got.NodeOf {
				parts = append(parts, string(uid)+"="+n)
			}
			slices.Sort(parts)
			for _, v := range got.Victims {
				victims = append(victims, v.Name)
			}
			text = fmt.Sprintf("%s %v of %d", strings.Join(parts, " "), victims, got.Units)
			if got.PDBViolations > 0 {
				text += fmt.Sprint(" breaks ", got.PDBViolations)
			}
		}
		if text != c.want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", name, text, err, c.want)
		}
	}
	in := preemption.PodGroupInput{Pods: []*v1.Pod{pod("p1 - 10 4 0")}, MinCount: 1, Priority: 10,
		Snapshot: snapshot.Of([]*v1.Node{node("n1")}, []*v1.Pod{pod("a n1 1 4 1")}),
		Plugins:  expect.Value(plugins.DefaultPluginSet("test", nil)), Budgets: []*policy.PodDisruptionBudget{pdb("a",
			0)}}
	in.Budgets[0].Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
	if got, err := preemption.PreemptForPodGroup(t.Context(), in); err == nil || got.NodeOf != nil {
		t.Errorf("a selector that cannot be read: got %+v, %v, want an error alone", got, err)
	}
	in.Budgets = nil
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	if got, err := preemption.PreemptForPodGroup(ctx, in); got.Victims != nil || err != nil &&
		err.Error() != "stopped" {
		t.Errorf("stopped: got %+v, %v, want no victims", got, err)
	}
}

// Each victim is told for whom it leaves, what was missing, and the budgets that did not allow it.
func TestVictimReports(t *testing.T) {
	p := pod("p - 10 4 0", func(p *v1.Pod) { p.Spec.PriorityClassName = "high" })
	as := func(p *v1.Pod) { p.Labels = map[string]string{"app": "a"} }
	a, b, c := pod("a n1 1 2 1", as), pod("b n1 2 1 1", as), pod("c n1 3 1 1")
	in := searchInput(t, p, []*v1.Node{node("n1")}, []*v1.Pod{a, b, c})
	below := pdb("c", -1)
	in.Budgets = []*policy.PodDisruptionBudget{pdb("a", 1), below, pdb("other", 0)}
	got := preemption.VictimReports(t.Context(), in, preemption.Candidate{Node: "n1", Victims: []*v1.Pod{b, a, c},
		Candidates: 4})
	if len(got) != 3 {
		t.Fatalf("%d reports, want 3", len(got))
	}
	for i, want := range []string{"2 []", "1 [{a 1}]", "3 [{c 0}]"} {
		r := got[i]
		if text := fmt.Sprint(r.Own, " ", r.Budgets); text != want || r.By != "ns/p" || r.Class != "high" ||
			r.Priority != 10 ||
			r.Node != "n1" || r.Candidates != 4 || r.Victims != 3 || len(r.Shortages) != 1 {
			t.Errorf("report %d: got %s: %+v, want %s", i, text, r, want)
		}
	}
	for what, change := range map[string]func(*preemption.Input, *preemption.Candidate){
		"a node that is gone": func(_ *preemption.Input, c *preemption.Candidate) { c.Node = "gone" },
		"a plugin that is not there": func(in *preemption.Input, _ *preemption.Candidate) {
			in.Plugins = schedule.NewPluginSet("none")
		},
		"budgets that cannot be read": func(in *preemption.Input, c *preemption.Candidate) {
			b := pdb("a", 0)
			b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
			in.Budgets, c.Node = []*policy.PodDisruptionBudget{b}, "gone"
		},
	} {
		other, choice := in, preemption.Candidate{Node: "n1", Victims: []*v1.Pod{c}}
		change(&other, &choice)
		if got := preemption.VictimReports(t.Context(), other, choice); len(got) != 1 || got[0].Own != 3 ||
			len(got[0].Shortages) != 0 || len(got[0].Budgets) > 0 && what == "budgets that cannot be read" {
			t.Errorf("%s: got %+v, want a report without shortages", what, got)
		}
	}
	var nominated []framework.PodInfo
	for _, text := range []string{"u - 9 1 0", "v - 10 1 0", "w - 11 1 0", "x - -1 1 0"} {
		nominated = append(nominated, expect.Value(snapshot.NewPodInfo(pod(text))))
	}
	var names []string
	for _, o := range preemption.LowerPriorityNominatedPods(p, nominated) {
		names = append(names, o.Name)
	}
	if got := strings.Join(names, " "); got != "u x" {
		t.Errorf("nominated below: got %s, want u x", got)
	}
}

// Two choices are told apart by everything that they say.
func TestDifferencesOfChoices(t *testing.T) {
	one := preemption.Candidate{Node: "n", Victims: []*v1.Pod{pod("a n 1 1 1")}, PDBViolations: 1, Candidates: 2}
	if got := preemption.Differences(one, one); len(got) != 0 {
		t.Errorf("of itself: got %v, want none", got)
	}
	for want, change := range map[string]func(*preemption.Candidate){
		"node: n, other m":              func(c *preemption.Candidate) { c.Node = "m" },
		"victims: [ns/a], other [ns/b]": func(c *preemption.Candidate) { c.Victims = []*v1.Pod{pod("b n 1 1 1")} },
		"victims: [ns/a], other []":     func(c *preemption.Candidate) { c.Victims = nil },
		"budgets broken: 1, other 0":    func(c *preemption.Candidate) { c.PDBViolations = 0 },
		"candidates: 2, other 3":        func(c *preemption.Candidate) { c.Candidates = 3 },
		"message: , other none":         func(c *preemption.Candidate) { c.Message = "none" },
	} {
		other := one
		change(&other)
		if got := strings.Join(preemption.Differences(one, other), "; "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
