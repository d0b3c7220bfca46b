package explain

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/wrappers"
)

func asks(name, cpu string, set ...func(*corev1.Pod)) *corev1.Pod {
	return wrappers.MakePod().Namespace("shop").Name(name).UID("uid-x").SchedulerName("default-scheduler").
		Container("app", "").Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu}).Obj(set...)
}

func text(t *testing.T, a Answer) string {
	t.Helper()
	var b bytes.Buffer
	if err := a.WriteText(&b, t0); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func answers(t *testing.T, a Answer, want, not []string) {
	t.Helper()
	got := text(t, a)
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("the answer lacks %q:\n%s", w, got)
		}
	}
	for _, w := range not {
		if strings.Contains(got, w) {
			t.Errorf("the answer says %q:\n%s", w, got)
		}
	}
}

func TestWhyAVictimIsGone(t *testing.T) {
	in := In{Now: t0, Ref: journal.Ref{Namespace: "shop", Name: "db-0"},
		ClusterContext: &ClusterContext{Pods: []*corev1.Pod{asks("urgent", "2")}}}
	in.fact(20*time.Second, "scheduler", journal.Preempted{By: "shop/urgent", Class: "urgent", Priority: 1000,
		Node: "node-1", Candidates: 1, Victims: 1,
		Shortages: []journal.Shortage{{Resource: "cpu", Requested: 2000, Used: 3000, Available: 4000}},
		Budgets:   []journal.ViolatedBudget{{Name: "db", Allowed: 0}}})
	in.fact(19*time.Second, "apiserver", journal.Removed{})
	want := []string{
		"was preempted by the scheduler for urgent (priority 1000), which wanted 2000m of cpu where 1000m of 4000m " +
			"were free on node-1",
		"PodDisruptionBudget db allowed 0 disruptions, but that is best effort for preemption",
		"node-1 was the only candidate",
		"equal priority is never preempted", "lower the cpu request of container app by 1000m to 1000m",
		`"preemptionPolicy":"Never"`, "replace --force",
	}
	answers(t, Why(in), want, []string{"evicted"})

	in.ClusterContext, in.Entries[0].Fact = nil, journal.Preempted{By: "other/batch", Priority: 7, Own: 3, Node: "n",
		Candidates: 3, Victims: 2}
	answers(t, Why(in), []string{"for other/batch (priority 7)", "fits on n only without it",
		"2 Pods had to leave n together", "a priority of at least 7"}, []string{"PodDisruptionBudget", "priorityclass"})

	in.Pod = asks("db-0", "3", func(p *corev1.Pod) {
		p.Spec.NodeName, p.DeletionTimestamp, p.DeletionGracePeriodSeconds = "n1",
			&metav1.Time{Time: t0.Add(10 * time.Second)}, new(int64(30))
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
	in.Node = node(corev1.ConditionTrue)
	answers(t, Why(in), []string{"Terminating: preempted", "for other/batch", "Next: Containers still run: app"}, nil)
	if victim, none := NeedsNamespaceContext(in), NeedsNamespaceContext(In{}); !victim || none {
		t.Errorf("a namespace's context is needed: got %v for a victim and %v without one, want true and false", victim,
			none)
	}
}
