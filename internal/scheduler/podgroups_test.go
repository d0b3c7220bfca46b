package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
)

func newPodGroup(name string, least int32) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("group-" + name), Generation: 1},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: least}}},
	}
}

func newBasicPodGroup(name string) *schedulingv1beta1.PodGroup {
	g := newPodGroup(name, 1)
	g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{
		Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
	return g
}

// inPodGroup puts a Pod into a group.
func inPodGroup(group string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} }
}

// apiServing is a clientset whose API server has PodGroups.
func apiServing(objects ...runtime.Object) *fake.Clientset {
	c := fake.NewClientset(objects...)
	c.Resources = append(c.Resources, &metav1.APIResourceList{GroupVersion: "scheduling.k8s.io/v1beta1",
		APIResources: []metav1.APIResource{{Name: "podgroups"}, {Name: "workloads"}}})
	return c
}

func withPodGroups(t *testing.T, change func(*Options), objects ...runtime.Object) *cluster {
	t.Helper()
	return runOn(t, context.Background(), apiServing(objects...), func(o *Options) {
		o.GenericWorkload = true
		if change != nil {
			change(o)
		}
	})
}

// awaitGroupCondition waits for the condition of a PodGroup.
func (c *cluster) awaitGroupCondition(group string, status metav1.ConditionStatus, reason, message string) {
	c.t.Helper()
	groups := c.SchedulingV1beta1().PodGroups("default")
	w, err := groups.Watch(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer w.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		g, err := groups.Get(c.t.Context(), group, metav1.GetOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		last := meta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
		if last != nil && last.Status == status && last.Reason == reason && last.Message == message &&
			last.ObservedGeneration == 1 {
			return
		}
		select {
		case <-w.ResultChan():
		case <-limit.C:
			c.t.Fatalf("PodGroup %s says %+v, want %s %s %q", group, last, status, reason, message)
		}
	}
}

// gated waits until the scheduler has put a Pod behind the gate of GangScheduling.
func (c *cluster) gated(name string) {
	c.t.Helper()
	c.awaitFact(name, "is gated", func(f journal.Fact) bool {
		q, ok := f.(journal.Queued)
		return ok && q.Queue == "gated" && q.By == gangscheduling.Name
	})
}

func (c *cluster) bindingsMade() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.bindings)
}

func TestAPodGroupIsBoundTogether(t *testing.T) {
	t.Parallel()
	c := withPodGroups(t, nil, aNode("n1", "2"), aNode("n2", "2"))
	c.create(aPod("train-0", "1", inPodGroup("train")))
	c.gated("train-0")
	if _, err := c.SchedulingV1beta1().PodGroups("default").Create(t.Context(), newPodGroup("train", 3),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.create(aPod("train-1", "1", inPodGroup("train")))
	c.gated("train-1")
	if n := c.bindingsMade(); n > 0 {
		t.Errorf("%d Pods of an incomplete gang are bound", n)
	}
	c.create(aPod("train-2", "1", inPodGroup("train")))
	for i := range 3 {
		c.bound(fmt.Sprintf("train-%d", i))
	}
	c.awaitGroupCondition("train", metav1.ConditionTrue, "Scheduled", "")
	c.create(aPod("web", "1"))
	c.bound("web")
}

func TestAGangWithoutRoomHoldsNothing(t *testing.T) {
	t.Parallel()
	c := withPodGroups(t, nil, aNode("n1", "2"), newPodGroup("train", 3))
	for i := range 3 {
		c.create(aPod(fmt.Sprintf("train-%d", i), "1", inPodGroup("train")))
	}
	const group = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, pod group preemption: No preemption " +
		"victims found for incoming pod group"
	c.awaitGroupCondition("train", metav1.ConditionFalse, "Unschedulable", group)
	refusals := map[string]int{}
	for i := range 3 {
		p := c.await(fmt.Sprintf("train-%d", i), "refused", isUnschedulable)
		refusals[scheduled(p).Message]++
	}
	if refusals["pod group is unschedulable, "+group] != 2 ||
		refusals["0/1 nodes are available: 1 Insufficient cpu."] != 1 {
		t.Errorf("refused with %v", refusals)
	}
	c.create(aPod("big", "2")) // what the gang does not hold is free for others
	c.bound("big")
	if _, err := c.CoreV1().Nodes().Create(t.Context(), aNode("n2", "4"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if on := c.bound(fmt.Sprintf("train-%d", i)); on != "n2" {
			t.Errorf("train-%d stands on %s, want n2", i, on)
		}
	}
	c.awaitGroupCondition("train", metav1.ConditionTrue, "Scheduled", "")
}

func TestALowerMinCountLetsAGangGo(t *testing.T) {
	t.Parallel()
	c := withPodGroups(t, nil, aNode("n1", "2"), newPodGroup("train", 3))
	for i := range 3 {
		c.create(aPod(fmt.Sprintf("train-%d", i), "1", inPodGroup("train")))
	}
	for i := range 3 {
		c.await(fmt.Sprintf("train-%d", i), "refused", isUnschedulable)
	}
	lower := newPodGroup("train", 2)
	if _, err := c.SchedulingV1beta1().PodGroups("default").Update(t.Context(), lower, metav1.UpdateOptions{}); err !=
		nil {
		t.Fatal(err)
	}
	c.awaitGroupCondition("train", metav1.ConditionTrue, "Scheduled", "")
	c.awaitFacts("two Pods bound", func() bool { return c.bindingsMade() == 2 })
}

func TestPodsOfABasicGroupAreScheduledAlone(t *testing.T) {
	t.Parallel()
	c := withPodGroups(t, nil, aNode("n1", "2"), newBasicPodGroup("loose"))
	c.create(aPod("a", "1", inPodGroup("loose")))
	c.bound("a")
	c.create(aPod("b", "4", inPodGroup("loose")))
	c.await("b", "refused", isUnschedulable)
	c.create(aPod("c", "1", inPodGroup("loose")))
	c.bound("c")
	c.awaitGroupCondition("loose", metav1.ConditionTrue, "Scheduled", "")
}

func twoSchedulers(t *testing.T) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	cfg, err := config.Load(
		[]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: " +
			"[{schedulerName: default-scheduler}, {schedulerName: second}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestMembersOfOneGroupHaveOneScheduler(t *testing.T) {
	t.Parallel()
	c := withPodGroups(t, func(o *Options) { o.Config = twoSchedulers(t) }, aNode("n1", "4"), newPodGroup("train", 2))
	c.create(aPod("train-0", "1", inPodGroup("train")))
	c.create(aPod("train-1", "1", inPodGroup("train"), func(p *v1.Pod) { p.Spec.SchedulerName = "second" }))
	p := c.await("train-0", "refused", isUnschedulable)
	if got := scheduled(p).Message; got !=
		`all pods in a single pod group should have the same .spec.schedulerName set, got: "second" and `+
			`"default-scheduler"` &&
		got != `all pods in a single pod group should have the same .spec.schedulerName set, got: "default-scheduler" `+
			`and "second"` {
		t.Errorf("refused with %q", got)
	}
}

func TestTheGateNeedsAnAPIThatServesPodGroups(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Client: fake.NewClientset(), Features: features.Features{GenericWorkload: true}})
	if err == nil {
		t.Fatal("a scheduler of PodGroups starts where none are served")
	}
}

func TestAGangPreemptsForAllOfItsPods(t *testing.T) {
	t.Parallel()
	r := metrics.NewKubeRegistry()
	budget := &policy.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "low", Namespace: "default"},
		Spec: policy.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "low"}}}}
	c := withPodGroups(t, func(o *Options) { o.Metrics = r }, aNode("n1", "2"), aNode("n2", "2"),
		newPodGroup("train", 3), budget)
	for i := range 4 {
		c.create(aPod(fmt.Sprintf("low-%d", i), "1", func(p *v1.Pod) { p.Labels = map[string]string{"app": "low"} }))
	}
	for i := range 4 {
		c.bound(fmt.Sprintf("low-%d", i))
	}
	for i := range 3 {
		c.create(aPod(fmt.Sprintf("train-%d", i), "1", inPodGroup("train"),
			func(p *v1.Pod) { p.Spec.Priority = new(int32(100)) }))
	}
	for i := range 3 {
		c.bound(fmt.Sprintf("train-%d", i))
	}
	c.awaitGroupCondition("train", metav1.ConditionTrue, "Scheduled", "")
	left, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(left.Items); n != 4 {
		t.Errorf("%d Pods are left, want the gang and one other", n)
	}
	want := map[string]float64{
		"scheduler_workload_preemption_attempts_total/Success": 1, "scheduler_workload_preemption_victims": 1,
		"scheduler_preemption_workload_disruptions":          1,
		"scheduler_preemption_pdb_violations_total/podgroup": 3, "scheduler_preemption_evaluation_duration_seconds": 1,
		"scheduler_preemption_execution_duration_seconds": 1,
	}
	// the fact of the last victim's end comes after it
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		got, short := gather(t, r), ""
		for k, least := range want {
			if got[k] < least {
				short += fmt.Sprintf(" %s is %v, want %v;", k, got[k], least)
			}
		}
		if short == "" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("got %v in short, want none in time", short)
		}
	}
}

func TestAGangThatPreemptionCannotHelpDisturbsNobody(t *testing.T) {
	t.Parallel()
	c := withPodGroups(t, nil, aNode("n1", "2"), newPodGroup("train", 3))
	c.create(aPod("low", "1"))
	c.bound("low")
	for i := range 3 {
		c.create(aPod(fmt.Sprintf("train-%d", i), "1", inPodGroup("train"),
			func(p *v1.Pod) { p.Spec.Priority = new(int32(100)) }))
	}
	c.awaitGroupCondition("train", metav1.ConditionFalse, "Unschedulable",
		"minCount (3) cannot be satisfied: 1 scheduled, 1 remaining, pod group preemption: No preemption victims "+
			"found for incoming pod group")
	if _, err := c.CoreV1().Pods("default").Get(t.Context(), "low", metav1.GetOptions{}); err != nil {
		t.Errorf("the Pod of low priority: %v, want no error", err)
	}
}

// Pod groups of random size on random nodes: of each, nobody or at least minCount Pods are bound,
// and no node holds more than it has.
func TestNoGangIsBoundInPart(t *testing.T) {
	t.Parallel()
	cases := 0
	rapid.Check(t, func(r *rapid.T) {
		if cases++; cases > 8 && !t.Failed() {
			return // each of them starts a scheduler
		}
		var objects []runtime.Object
		room := map[string]int{}
		for i := range rapid.IntRange(1, 4).Draw(r, "nodes") {
			name := fmt.Sprintf("n%d", i)
			room[name] = rapid.IntRange(1, 5).Draw(r, "cpus")
			objects = append(objects, aNode(name, fmt.Sprint(room[name])))
		}
		least, members := map[string]int{}, map[string][]*v1.Pod{}
		var pods []*v1.Pod
		for i := range rapid.IntRange(1, 4).Draw(r, "gangs") {
			name := fmt.Sprintf("g%d", i)
			least[name] = rapid.IntRange(1, 4).Draw(r, "minCount")
			objects = append(objects, newPodGroup(name, int32(least[name])))
			for k := range rapid.IntRange(1, 6).Draw(r, "members") {
				p := aPod(fmt.Sprintf("%s-%d", name, k), fmt.Sprint(rapid.IntRange(1, 3).Draw(r, "cpu")),
					inPodGroup(name))
				members[name], pods = append(members[name], p), append(pods, p)
			}
		}
		pods = rapid.Permutation(pods).Draw(r, "order")
		clientset := apiServing(objects...)
		ctx, cancel := context.WithCancel(context.Background())
		c := &cluster{when: map[string]time.Time{}, Clientset: clientset, t: t,
			notes: &recordedFacts{facts: map[string][]journal.Fact{}}}
		c.PrependReactor("create", "pods", c.bind)
		s, err := New(Options{Client: c, Journal: c.notes, Seed: 1, Features: features.Features{GenericWorkload: true}})
		if err != nil {
			r.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		for end := time.Now().Add(patience); !s.Ready() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		for _, p := range pods {
			c.create(p)
		}
		for name, list := range members {
			for _, p := range list {
				if len(list) < least[name] {
					c.gated(p.Name)
				} else {
					c.await(p.Name, "decided", func(p *v1.Pod) bool {
						return p.Spec.NodeName != "" ||
							isUnschedulable(p)
					})
				}
			}
		}
		cancel()
		if err := <-done; err != nil { // all bindings under way are over
			r.Fatal(err)
		}
		bound := map[string]int{}
		for _, b := range c.bindings {
			for _, p := range pods {
				if p.Name == b.Name {
					bound[gangscheduling.PodGroupNameOf(p)]++
					room[b.Target.Name] -= int(p.Spec.Containers[0].Resources.Requests.Cpu().Value())
				}
			}
		}
		for name, n := range bound {
			if n < least[name] {
				r.Errorf("%d Pods of %s are bound, minCount is %d", n, name, least[name])
			}
		}
		for name, left := range room {
			if left < 0 {
				r.Errorf("node %s is over-committed by %d CPUs", name, -left)
			}
		}
	})
}
