package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
)

// groupFixture has 1500m free on node-1 and 2500m on node-2, and members that ask for 1500m each.
func groupFixture(t *testing.T, members int) In {
	t.Helper()
	pluginSet, err := plugins.DefaultPluginSet(corev1.DefaultSchedulerName, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &ClusterContext{Plugins: pluginSet}
	for _, n := range []string{"node-1", "node-2"} {
		c.Nodes = append(c.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
				corev1.ResourcePods: resource.MustParse("110")}}})
	}
	add := func(name, cpu, node string) *corev1.Pod {
		p := asks(name, cpu, func(p *corev1.Pod) { p.UID, p.Spec.NodeName = types.UID(name), node })
		c.Pods = append(c.Pods, p)
		return p
	}
	add("svc-a", "2500m", "node-1")
	add("svc-b", "500m", "node-2")
	add("svc-c", "1", "node-2")
	in := In{Now: t0, Ref: journal.Ref{Namespace: "shop", Name: "train-0"}, ClusterContext: c}
	for _, name := range []string{"train-0", "train-1", "train-2"}[:members] {
		p := add(name, "1500m", "")
		p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "train"}
		if name == "train-0" {
			in.Pod = p
		}
	}
	return in
}

func TestWhyAMemberWaitsForItsGroup(t *testing.T) {
	want := []string{
		"has a place",
		"waits at Permit (Coscheduling) for its group train, which needs 3 members at once: only 2 can be placed",
		"train-2, fits on no node then",
		"is 500m short of cpu (1000m free of 4000m, 1500m wanted)", "remove pod shop/svc-b", "delete pod svc-b",
		"lower the cpu request of each member by 250m to 1250m", `"minMember":2`,
	}
	not := []string{"delete pod train"}
	in := groupFixture(t, 3)
	in.fact(10*time.Second,
		"scheduler", journal.Waiting{
			For: "plugin Coscheduling at Permit, with node node-1 held: 1 of 3 members of PodGroup shop/train have a " +
				"node"})
	answers(t, Why(in), want, not)
	in.fact(9*time.Second, "scheduler", journal.BindFailed{Node: "node-1", Point: "Permit", Plugin: "Coscheduling",
		Error: "optimistic rejection in PostFilter"})
	in.fact(9*time.Second, "scheduler", journal.Queued{Queue: "backoff", Cause: "ScheduleAttemptFailure"})
	answers(t, Why(in), want, not)
	in.Pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
	answers(t, Why(in), nil, []string{"has a place"})
}

// The scheduler tried the Pods before their group existed: its message is outdated once the group
// exists.
func TestGroupThatIsCompleteByNow(t *testing.T) {
	in := groupFixture(t, 3)
	in.fact(time.Second, "scheduler", journal.BindFailed{Point: "Permit", Plugin: "Coscheduling",
		Error: "PodGroup not found"})
	answers(t, Why(in), []string{"which does not exist in namespace shop"}, nil)
	in.ClusterContext.Groups.Labelled = &coscheduling.Group{Spec: coscheduling.Spec{MinMember: 3}}
	answers(t, Why(in), []string{"for its group train, which needs 3 members at once: only 2 can be placed",
		"is 500m short of cpu (1000m free of 4000m, 1500m wanted)", "remove pod shop/svc-b"},
		[]string{"does not exist"})
}

// A Pod at Permit has status.nominatedNodeName before the journal says that it waits: it has no
// victims.
func TestGroupIsExplainedWithoutJournal(t *testing.T) {
	in := groupFixture(t, 3)
	in.Pod.Status.NominatedNodeName = "node-2"
	in.ClusterContext.Groups.Labelled = &coscheduling.Group{Spec: coscheduling.Spec{MinMember: 3}}
	answers(t, Why(in), []string{"for its group train, which needs 3 members at once: only 2 can be placed"},
		[]string{"others were asked to leave"})
	in.ClusterContext.Groups.Labelled.Spec.MinMember = 2
	answers(t, Why(in), nil, []string{"only 2 can be placed"})
}

func TestWhyAGroupIsIncomplete(t *testing.T) {
	in := groupFixture(t, 2)
	in.fact(10*time.Second, "scheduler", journal.Ruled{By: "Coscheduling",
		Message: "0/2 nodes are available: pre-filter pod train-0 cannot find enough sibling pods, current pods " +
			"number: 2, minMember of group: 3."})
	answers(t, Why(in), []string{"only with 3 members at once, and only 2 of its Pods exist", "create the 1 members",
		`"minMember":2`}, nil)
	in.fact(9*time.Second, "scheduler", journal.BindFailed{Point: "Permit", Plugin: "Coscheduling",
		Error: "PodGroup not found"})
	answers(t, Why(in), []string{"the PodGroup train, which does not exist in namespace shop"}, nil)
}

// inGroup makes the members of groupFixture those of a PodGroup with the minCount given.
func inGroup(t *testing.T, members int, least int32) In {
	t.Helper()
	in := groupFixture(t, members)
	for _, p := range in.ClusterContext.Pods {
		if p.Spec.NodeName == "" {
			p.Labels, p.Spec.SchedulingGroup = nil, &corev1.PodSchedulingGroup{PodGroupName: new("train")}
		}
	}
	in.ClusterContext.Groups = Groups{Read: true, List: []*schedulingv1beta1.PodGroup{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "train"},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: least}}},
	}}}
	return in
}

func TestWhyAPodGroupIsNotPlaced(t *testing.T) {
	in := inGroup(t, 3, 3)
	in.fact(10*time.Second, "scheduler", journal.Ruled{By: "GangScheduling",
		Message: "pod group is unschedulable, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"})
	answers(t, Why(in), []string{
		"has a place", "its PodGroup train needs 3 Pods at once (minCount), and only 2 can be placed",
		"train-2, fits on no node then", "is 500m short of cpu (1000m free of 4000m, 1500m wanted)",
		"delete pod svc-b", "lower the cpu request of each member by 250m to 1250m",
		`patch podgroups.scheduling.k8s.io train --type=merge -p ` +
			`'{"spec":{"schedulingPolicy":{"gang":{"minCount":2}}}}'`,
	}, []string{"delete pod train"})
	in = inGroup(t, 3, 2) // there is room for two
	answers(t, Why(in), nil, []string{"can be placed: none is bound"})
	in = inGroup(t, 2, 3)
	answers(t, Why(in), []string{"whose minCount is 3, and only 2 of its Pods exist",
		"create the 1 Pods that are missing", `"minCount":2`}, nil)
	in = inGroup(t, 3, 3)
	in.ClusterContext.Pods[len(in.ClusterContext.Pods)-1].Spec.SchedulingGates = []corev1.PodSchedulingGate{
		{Name: "example.com/wait"}}
	answers(t, Why(in), []string{"only 2 of its Pods can be tried, because train-2 has scheduling gates"}, nil)
	in.ClusterContext.Groups.List = nil
	answers(t, Why(in), []string{"names the PodGroup train, which does not exist in namespace shop"}, nil)
}
