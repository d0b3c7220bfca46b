package preemption_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/preemption"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/wrappers"
)

func node(name string, change ...func(*v1.Node)) *v1.Node {
	return wrappers.MakeNode().Hostname(name).Allocatable(map[v1.ResourceName]string{v1.ResourceCPU: "4",
		v1.ResourceMemory: "8Gi", v1.ResourcePods: "110"}).Obj(change...)
}

// pod is "name node priority cpu start", start in seconds.
func pod(text string, change ...func(*v1.Pod)) *v1.Pod {
	w := strings.Fields(text)
	var priority int32
	var start int
	if _, err := fmt.Sscan(w[2], &priority); err != nil {
		panic(err) // the table is wrong
	}
	if _, err := fmt.Sscan(w[4], &start); err != nil {
		panic(err)
	}
	p := wrappers.MakePod().Namespace("ns").Name(w[0]).UID(w[0]).Label("app", w[0]).Obj()
	if w[1] != "-" {
		p.Spec.NodeName = w[1]
	}
	p.Spec.Priority = &priority
	p.Spec.Containers = []v1.Container{
		{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(w[3])}}}}
	p.Status.StartTime = &metav1.Time{Time: time.Unix(int64(start), 0)}
	for _, f := range change {
		f(p)
	}
	return p
}

func pdb(app string, allowed int32) *policy.PodDisruptionBudget {
	return &policy.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: "ns"},
		Spec: policy.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status: policy.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed}}
}

// row: BND-10, BND-11, BND-14
func TestPreemptionSearch(t *testing.T) {
	guaranteed := func(p *v1.Pod) {
		c := &p.Spec.Containers[0]
		c.Resources.Requests[v1.ResourceMemory] = resource.MustParse("1Gi")
		c.Resources.Limits = c.Resources.Requests
	}
	cordoned := func(n *v1.Node) { n.Spec.Unschedulable = true }
	for name, c := range map[string]struct {
		nodes   []*v1.Node
		pods    []*v1.Pod
		p       *v1.Pod
		budgets []*policy.PodDisruptionBudget
		want    string
	}{
		// c, the most important, is put back
		"the smallest set that makes room": {p: pod("p - 10 2 0"), pods: []*v1.Pod{pod("a n1 1 1 1"), pod("b n1 2 1 1"),
			pod("c n1 3 2 1")}, want: "n1 [b a]"},
		"equal priority stays": {p: pod("p - 10 2 0"), pods: []*v1.Pod{pod("a n1 10 4 1")},
			want: "0/1 nodes are available: 1 No preemption victims found for incoming pod."},
		"not enough even without victims": {p: pod("p - 10 2 0"),
			pods: []*v1.Pod{pod("a n1 10 3 1"), pod("b n1 1 1 1")},
			want: "0/1 nodes are available: 1 Insufficient cpu."},
		"beyond help": {nodes: []*v1.Node{node("n1", cordoned)}, p: pod("p - 10 1 0"),
			pods: []*v1.Pod{pod("a n1 1 1 1")},
			want: "0/1 nodes are available: 1 Preemption is not helpful for scheduling."},
		"the least important victim": {nodes: []*v1.Node{node("n1"), node("n2")}, p: pod("p - 10 4 0"),
			pods: []*v1.Pod{pod("a n1 5 4 1"), pod("b n2 4 4 1")}, want: "n2 [b]"},
		"the least sum": {nodes: []*v1.Node{node("n1"), node("n2")}, p: pod("p - 10 4 0"),
			pods: []*v1.Pod{pod("a n1 5 2 1"), pod("b n1 4 2 1"), pod("c n2 5 4 1")}, want: "n2 [c]"},
		"the latest start": {nodes: []*v1.Node{node("n1"), node("n2")}, p: pod("p - 10 4 0"),
			pods: []*v1.Pod{pod("a n1 5 4 100"), pod("b n2 5 4 200")}, want: "n2 [b]"},
		"the older stays": {p: pod("p - 10 2 0"),
			pods: []*v1.Pod{pod("young n1 1 2 200"), pod("old n1 1 2 100")}, want: "n1 [young]"},
		"a budget before priority": {nodes: []*v1.Node{node("n1"), node("n2")}, p: pod("p - 10 4 0"),
			pods: []*v1.Pod{pod("a n1 1 4 1"), pod("b n2 5 4 1")}, budgets: []*policy.PodDisruptionBudget{pdb("a", 0)},
			want: "n2 [b]"},
		"a budget on one node": {p: pod("p - 10 2 0"), pods: []*v1.Pod{pod("a n1 1 2 1"), pod("b n1 5 2 1")},
			budgets: []*policy.PodDisruptionBudget{pdb("a", 0)}, want: "n1 [b]"},
		"budgets are broken if need be": {p: pod("p - 10 4 0"), pods: []*v1.Pod{pod("a n1 1 4 1")},
			budgets: []*policy.PodDisruptionBudget{pdb("a", 0)}, want: "n1 [a] breaks 1"},
		"QoS plays no part": {p: pod("p - 10 2 0"), pods: []*v1.Pod{pod("sure n1 1 2 1", guaranteed),
			pod("best n1 2 2 1")}, want: "n1 [sure]"},
	} {
		if c.nodes == nil {
			c.nodes = []*v1.Node{node("n1")}
		}
		pluginSet, err := plugins.DefaultPluginSet("test", nil)
		if err != nil {
			t.Fatal(err)
		}
		in := schedule.Input{Pod: c.p, Snapshot: snapshot.Of(c.nodes, c.pods), Plugins: pluginSet}
		r := schedule.SchedulePod(context.Background(), in)
		in.State = r.State
		got, err := preemption.Preempt(context.Background(), preemption.Input{Input: in, NodeToStatus: r.NodeToStatus(),
			Budgets: c.budgets, Percent: 10, Absolute: 100})
		if err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
		}
		if text := show(got); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

func show(c preemption.Candidate) string {
	if c.Node == "" {
		return c.Message
	}
	var names []string
	for _, v := range c.Victims {
		names = append(names, v.Name)
	}
	text := fmt.Sprintf("%s %v", c.Node, names)
	if c.PDBViolations > 0 {
		text += fmt.Sprintf(" breaks %d", c.PDBViolations)
	}
	return text
}

// row: BND-12
func TestPodEligibleToPreemptOthers(t *testing.T) {
	never := v1.PreemptNever
	leaving := pod("a n1 1 4 1", func(p *v1.Pod) {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
			Reason: v1.PodReasonPreemptionByScheduler}}
	})
	for name, c := range map[string]struct {
		p    *v1.Pod
		want string
	}{
		"never": {pod("p - 10 1 0", func(p *v1.Pod) { p.Spec.PreemptionPolicy = &never }),
			preemption.PolicyNever},
		"its victims still leave": {pod("p - 10 1 0", func(p *v1.Pod) { p.Status.NominatedNodeName = "n1" }),
			preemption.TerminatingVictims},
		"no nomination": {pod("p - 10 1 0"), ""},
	} {
		pluginSet, err := plugins.DefaultPluginSet("test", nil)
		if err != nil {
			t.Fatal(err)
		}
		in := schedule.Input{Pod: c.p, Snapshot: snapshot.Of([]*v1.Node{node("n1")}, []*v1.Pod{leaving}),
			Plugins: pluginSet}
		r := schedule.SchedulePod(context.Background(), in)
		if why, ok := preemption.PodEligibleToPreemptOthers(preemption.Input{Input: in,
			NodeToStatus: r.NodeToStatus()}); why != c.want || ok != (c.want == "") {
			t.Errorf("%s: %q %v, want %q", name, why, ok, c.want)
		}
	}
}
