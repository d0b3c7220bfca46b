package plugins_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
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

// hint asks a plugin about an event: its answer, or "not registered".
func hint(t *testing.T, pl framework.Plugin, about framework.EventResource, action framework.ActionType, p *v1.Pod,
	change [2]any) string {
	t.Helper()
	events, err := pl.(framework.EnqueueExtensions).EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Event.Resource != about || e.Event.ActionType&action == 0 {
			continue
		}
		if e.QueueingHintFn == nil {
			return "Queue"
		}
		got, err := e.QueueingHintFn(logr.Discard(), p, change[0], change[1])
		if err != nil {
			return fmt.Sprintf("%v: %v", got, err)
		}
		return got.String()
	}
	return "not registered"
}

func group(name string, least int32) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if least > 0 {
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: least}
	}
	return g
}

func inGroup(name string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name} }
}

// row: SCH-30
func TestQueueingHints(t *testing.T) {
	const queue, skip, never = "Queue", "QueueSkip", "not registered"
	fit := expect.Value(noderesources.NewFit(fitArgs(nil)))
	added := expect.Value(nodeaffinity.New(&config.NodeAffinityArgs{AddedAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "pool", Operator: v1.NodeSelectorOpIn,
				Values: []string{"batch"}}}}}}}}))
	cordoned := func(n *v1.Node) { n.Spec.Unschedulable = true }
	ssd := newPod("p", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	tolerant := newPod("p", tolerate(v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists}))
	gang := gangscheduling.New(nil)
	elsewhere := newPod("q", inGroup("g"), func(p *v1.Pod) { p.Namespace = "other" })
	otherGroup := group("g", 3)
	otherGroup.Namespace = "other"
	type change = [2]any
	for _, c := range []struct {
		name   string
		pl     framework.Plugin
		about  framework.EventResource
		action framework.ActionType
		p      *v1.Pod
		change change
		want   string
	}{
		{"a node of the name", nodename.New(), framework.Node, framework.Add, newPod("p", onNode("n")),
			change{nil, newNode("n")}, queue},
		{"of another", nodename.New(), framework.Node, framework.Add, newPod("p", onNode("n")),
			change{nil, newNode("m")}, skip},
		{"names do not change", nodename.New(), framework.Node, framework.UpdateNodeLabel, newPod("p"),
			change{}, never},

		{"its port is free again", nodeports.New(), framework.AssignedPod, framework.Delete, newPod("p", hostPort(80)),
			change{newPod("q", onNode("n"), hostPort(80)), nil}, queue},
		{"another port", nodeports.New(), framework.AssignedPod, framework.Delete, newPod("p", hostPort(80)),
			change{newPod("q", onNode("n"), hostPort(81)), nil}, skip},
		{"of a Pod that had no node", nodeports.New(), framework.AssignedPod, framework.Delete,
			newPod("p", hostPort(80)), change{newPod("q", hostPort(80)), nil}, skip},
		{"a node without ports taken", nodeports.New(), framework.Node, framework.Add, newPod("p", hostPort(80)),
			change{nil, newNode("n")}, queue},

		{"uncordoned", nodeunschedulable.New(), framework.Node, framework.UpdateNodeTaint, newPod("p"),
			change{newNode("n", cordoned), newNode("n")}, queue},
		{"cordoned", nodeunschedulable.New(), framework.Node, framework.UpdateNodeTaint, newPod("p"),
			change{newNode("n"), newNode("n", cordoned)}, skip},
		{"was not cordoned", nodeunschedulable.New(), framework.Node, framework.UpdateNodeTaint, newPod("p"),
			change{newNode("n"), newNode("n")}, skip},
		{"comes", nodeunschedulable.New(), framework.Node, framework.Add, newPod("p"),
			change{nil, newNode("n")}, queue},
		{"comes cordoned", nodeunschedulable.New(), framework.Node, framework.Add, newPod("p"),
			change{nil, newNode("n", cordoned)}, skip},
		{"the Pod tolerates now", nodeunschedulable.New(), framework.TargetPod, framework.UpdatePodToleration,
			newPod("p"), change{newPod("p"), tolerant}, queue},
		{"it does not", nodeunschedulable.New(), framework.TargetPod, framework.UpdatePodToleration, newPod("p"),
			change{newPod("p"), newPod("p")}, skip},
		{"another Pod does", nodeunschedulable.New(), framework.TargetPod, framework.UpdatePodToleration, newPod("q"),
			change{newPod("p"), tolerant}, skip},

		{"a node without taints", tainttoleration.New(), framework.Node, framework.Add, newPod("p"),
			change{nil, newNode("n")}, queue},
		{"with one", tainttoleration.New(), framework.Node, framework.Add, newPod("p"),
			change{nil, newNode("n", taint("a:NoSchedule"))}, skip},
		{"it goes", tainttoleration.New(), framework.Node, framework.UpdateNodeTaint, newPod("p"),
			change{newNode("n", taint("a:NoExecute")), newNode("n")}, queue},
		{"it did not bar", tainttoleration.New(), framework.Node, framework.UpdateNodeTaint, newPod("p"),
			change{newNode("n", taint("a:PreferNoSchedule")), newNode("n")}, skip},
		{"something else", tainttoleration.New(), framework.Node, framework.Add, newPod("p"), change{}, queue},
		{"the Pod tolerates more", tainttoleration.New(), framework.TargetPod, framework.UpdatePodToleration,
			newPod("p"), change{newPod("p"), newPod("p")}, queue},
		{"another one does", tainttoleration.New(), framework.TargetPod, framework.UpdatePodToleration,
			newPod("p"), change{newPod("q"), newPod("q")}, skip},

		{"a node with the label", expect.Value(nodeaffinity.New(nil)), framework.Node, framework.Add, ssd,
			change{nil, newNode("n", label("disk", "ssd"))}, queue},
		{"without", expect.Value(nodeaffinity.New(nil)), framework.Node, framework.Add, ssd,
			change{nil, newNode("n")}, skip},
		{"it gets it", expect.Value(nodeaffinity.New(nil)), framework.Node, framework.UpdateNodeLabel, ssd,
			change{newNode("n"), newNode("n", label("disk", "ssd"))}, queue},
		{"it had it", expect.Value(nodeaffinity.New(nil)), framework.Node, framework.UpdateNodeLabel, ssd,
			change{newNode("n", label("disk", "ssd")), newNode("n", label("disk", "ssd"), label("a", "b"))}, skip},
		{"none of the profile's", added, framework.Node, framework.Add, newPod("p"), change{nil, newNode("n")}, skip},
		{"one of them", added, framework.Node, framework.Add, newPod("p"),
			change{nil, newNode("n", label("pool", "batch"))}, queue},

		{"a Pod goes", fit, framework.AssignedPod, framework.Delete, newPod("p", requests("cpu=1")),
			change{newPod("q", onNode("n")), nil}, queue},
		{"one that held no room", fit, framework.AssignedPod, framework.Delete, newPod("p", requests("cpu=1")),
			change{newPod("q"), nil}, skip},
		{"one that was nominated", fit, framework.AssignedPod, framework.Delete, newPod("p", requests("cpu=1")),
			change{newPod("q", func(p *v1.Pod) { p.Status.NominatedNodeName = "n" }), nil}, queue},
		{"one shrinks", fit, framework.AssignedPod, framework.UpdatePodScaleDown, newPod("p", requests("cpu=1")),
			change{newPod("q", onNode("n"), requests("cpu=2")), newPod("q", onNode("n"), requests("cpu=1"))}, queue},
		{"in what is not asked for", fit, framework.AssignedPod, framework.UpdatePodScaleDown,
			newPod("p", requests("cpu=1")), change{newPod("q", onNode("n"), requests("memory=2")),
				newPod("q", onNode("n"), requests("memory=1"))}, skip},
		{"one stays as it is", fit, framework.AssignedPod, framework.UpdatePodScaleDown, newPod("p", requests("cpu=1")),
			change{newPod("q", onNode("n"), requests("cpu=2")), newPod("q", onNode("n"), requests("cpu=2"))}, skip},
		{"the Pod asks for less", fit, framework.TargetPod, framework.UpdatePodScaleDown, newPod("p"),
			change{newPod("p"), newPod("p")}, queue},
		{"another does", fit, framework.TargetPod, framework.UpdatePodScaleDown, newPod("p"),
			change{newPod("q"), newPod("q")}, skip},
		{"a large node", fit, framework.Node, framework.Add, newPod("p", requests("cpu=4")),
			change{nil, newNode("n")}, queue},
		{"a small one", fit, framework.Node, framework.Add, newPod("p", requests("cpu=5")),
			change{nil, newNode("n")}, skip},
		{"a node grows", fit, framework.Node, framework.UpdateNodeAllocatable, newPod("p", requests("cpu=4")),
			change{newNode("n", allocatable("cpu=3")), newNode("n")}, queue},
		{"in what is not asked for ", fit, framework.Node, framework.UpdateNodeAllocatable,
			newPod("p", requests("cpu=4")), change{newNode("n", allocatable("memory=1Gi")), newNode("n")}, skip},
		{"in Pods", fit, framework.Node, framework.UpdateNodeAllocatable, newPod("p", requests("cpu=4")),
			change{newNode("n", allocatable("pods=1")), newNode("n")}, queue},
		{"in a device", fit, framework.Node, framework.UpdateNodeAllocatable, newPod("p", requests("x.org/d=1")),
			change{newNode("n", allocatable("x.org/d=1")), newNode("n", allocatable("x.org/d=2"))}, queue},
		{"not at all", fit, framework.Node, framework.UpdateNodeAllocatable, newPod("p", requests("cpu=4")),
			change{newNode("n"), newNode("n")}, skip},

		{"another of the gang", gang, framework.UnscheduledPod, framework.Add, newPod("p", inGroup("g")),
			change{nil, newPod("q", inGroup("g"))}, queue},
		{"one with a node", gang, framework.AssignedPod, framework.Add, newPod("p", inGroup("g")),
			change{nil, newPod("q", inGroup("g"))}, queue},
		{"of another gang", gang, framework.UnscheduledPod, framework.Add, newPod("p", inGroup("g")),
			change{nil, newPod("q", inGroup("h"))}, skip},
		{"of another namespace", gang, framework.UnscheduledPod, framework.Add, newPod("p", inGroup("g")),
			change{nil, elsewhere}, skip},
		{"neither has one", gang, framework.UnscheduledPod, framework.Add, newPod("p"), change{nil, newPod("q")}, skip},
		{"the group comes", gang, framework.PodGroup, framework.Add, newPod("p", inGroup("g")),
			change{nil, group("g", 3)}, queue},
		{"another group", gang, framework.PodGroup, framework.Add, newPod("p", inGroup("g")),
			change{nil, group("h", 3)}, skip},
		{"a namesake", gang, framework.PodGroup, framework.Add, newPod("p", inGroup("g")),
			change{nil, otherGroup}, skip},
		{"it needs fewer", gang, framework.PodGroup, framework.Update, newPod("p", inGroup("g")),
			change{group("g", 3), group("g", 2)}, queue},
		{"as many", gang, framework.PodGroup, framework.Update, newPod("p", inGroup("g")),
			change{group("g", 3), group("g", 3)}, skip},
		{"no Pod", gang, framework.UnscheduledPod, framework.Add, newPod("p", inGroup("g")),
			change{nil, newNode("n")}, "Queue: *v1.Node is no Pod"},
		{"no group", gang, framework.PodGroup, framework.Add, newPod("p", inGroup("g")),
			change{nil, newNode("n")}, "Queue: *v1.Node is no PodGroup"},
	} {
		t.Run(c.pl.Name()+"/"+c.name, func(t *testing.T) {
			if got := hint(t, c.pl, c.about, c.action, c.p, c.change); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Pods that a plugin tells apart have different shapes, and different signatures.
func TestPodShapesDiffer(t *testing.T) {
	port := func(ip string, protocol v1.Protocol, n int32) *v1.Pod {
		return newPod("p", func(p *v1.Pod) {
			p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostIP: ip, Protocol: protocol, HostPort: n}}
		})
	}
	tolerant := func(t v1.Toleration) *v1.Pod { return newPod("p", tolerate(t)) }
	for _, c := range []struct {
		pl   framework.Plugin
		pods []*v1.Pod
	}{
		{nodename.New(), []*v1.Pod{newPod("p"), newPod("p", onNode("a")), newPod("p", onNode("b"))}},
		{nodeports.New(), []*v1.Pod{newPod("p"), port("", "TCP", 80), port("", "TCP", 81), port("", "UDP", 80),
			port("10.0.0.1", "TCP", 80)}},
		{nodeunschedulable.New(), []*v1.Pod{newPod("p"), tolerant(v1.Toleration{Key: v1.TaintNodeUnschedulable,
			Operator: v1.TolerationOpExists})}},
		{tainttoleration.New(), []*v1.Pod{newPod("p"), tolerant(v1.Toleration{Key: "a"}),
			tolerant(v1.Toleration{Key: "b"}), tolerant(v1.Toleration{Key: "a", Value: "v"}),
			tolerant(v1.Toleration{Key: "a", Operator: v1.TolerationOpExists}),
			tolerant(v1.Toleration{Key: "a", Effect: v1.TaintEffectNoExecute})}},
	} {
		shapes, signatures := map[string]int{}, map[string]int{}
		for i, p := range c.pods {
			shape, ok := c.pl.(interface {
				AppendShape([]byte, *v1.Pod) ([]byte, bool)
			}).AppendShape([]byte("before"), p)
			if other, there := shapes[string(shape)]; !ok || there {
				t.Errorf("%s: Pods %d and %d have the shape %q (%t), want two", c.pl.Name(), other, i, shape, ok)
			}
			shapes[string(shape)] = i
			parts, status := c.pl.(framework.SignPlugin).SignPod(context.Background(), p)
			text := fmt.Sprint(parts)
			other, there := signatures[text]
			if c.pl.Name() == nodeports.Name {
				there = false // upstream's own signer of host ports leaves protocol and address out
			}
			if !status.IsSuccess() || there || len(parts) != 1 {
				t.Errorf("%s: Pods %d and %d have the signature %s (%v), want two of one part", c.pl.Name(), other, i,
					text, status)
			}
			signatures[text] = i
		}
	}
}

func TestUntoleratedTaintsCountAgainstANode(t *testing.T) {
	pl := tainttoleration.New()
	prefer := func(key string) func(*v1.Node) { return taint(key + ":PreferNoSchedule") }
	p := newPod("p", tolerate(v1.Toleration{Key: "a", Operator: v1.TolerationOpExists}),
		tolerate(v1.Toleration{Key: "b", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectPreferNoSchedule}),
		tolerate(v1.Toleration{Key: "c", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}))
	for _, c := range []struct {
		name string
		n    *v1.Node
		want int64
	}{
		{"none", newNode("n"), 0},
		{"tolerated", newNode("n", prefer("a"), prefer("b")), 0},
		{"tolerated with another effect", newNode("n", prefer("c")), 1},
		{"two", newNode("n", prefer("x"), prefer("a"), prefer("y")), 2},
		{"those that bar do not count", newNode("n", prefer("x"), taint("y:NoSchedule")), 1},
	} {
		for _, prepared := range []bool{false, true} {
			state := schedule.NewCycleState()
			if prepared {
				if s := pl.PreScore(t.Context(), state, p, nil); !s.IsSuccess() {
					t.Fatal(s)
				}
			}
			got, s := pl.Score(t.Context(), state, p, snapshot.NewNodeInfo(c.n))
			if got != c.want || !s.IsSuccess() {
				t.Errorf("%s, prepared %t: got %d %v, want %d", c.name, prepared, got, s, c.want)
			}
		}
	}
}

func TestFeasiblePodGroups(t *testing.T) {
	for _, c := range []struct {
		least, scheduled, remaining int
		want                        string
	}{
		{3, 3, 0, ""}, {3, 4, 0, ""}, {3, 2, 1, "Wait: minCount (3) is not yet satisfied: 2 scheduled, 1 remaining"},
		{3, 2, 0, "Unschedulable: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"}, {1, 0, 1,
			"Wait: minCount (1) is not yet satisfied: 0 scheduled, 1 remaining"},
	} {
		s := gangscheduling.Feasible(c.least, gangscheduling.Progress{Scheduled: c.scheduled, Remaining: c.remaining})
		got := ""
		if !s.IsSuccess() {
			got = s.Code().String() + ": " + s.Message()
		}
		if got != c.want {
			t.Errorf("%d of %d and %d to come: got %q, want %q", c.scheduled, c.least, c.remaining, got, c.want)
		}
	}
	if got := gangscheduling.MinCount(group("g", 3)); got != 3 {
		t.Errorf("a gang: got %d, want 3", got)
	}
	if got := gangscheduling.MinCount(group("g", 0)); got != 1 {
		t.Errorf("no gang: got %d, want 1", got)
	}
}
