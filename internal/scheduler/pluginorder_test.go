package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
)

// hookPlugin is a plugin that notes when it is asked and does what a test wants.
type hookPlugin struct {
	preFilter  func(p *v1.Pod)
	score      func()
	reserve    func(p *v1.Pod)
	unreserve  func(p *v1.Pod)
	preBind    func(p *v1.Pod) *framework.Status
	preScoring func()
}

func (*hookPlugin) Name() string { return "Probe" }

func (x *hookPlugin) PreFilter(_ context.Context, _ framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	if x.preFilter != nil {
		x.preFilter(p)
	}
	return nil, nil
}

func (*hookPlugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func (x *hookPlugin) PreScore(context.Context, framework.CycleState, *v1.Pod, []framework.NodeInfo) *framework.Status {
	if x.preScoring != nil {
		x.preScoring()
	}
	return nil
}

func (x *hookPlugin) Score(context.Context, framework.CycleState, *v1.Pod,
	framework.NodeInfo) (int64, *framework.Status) {
	if x.score != nil {
		x.score()
	}
	return 0, nil
}

func (*hookPlugin) ScoreExtensions() framework.ScoreExtensions { return nil }

func (x *hookPlugin) Reserve(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	if x.reserve != nil {
		x.reserve(p)
	}
	return nil
}

func (x *hookPlugin) Unreserve(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) {
	if x.unreserve != nil {
		x.unreserve(p)
	}
}

func (*hookPlugin) PreBindPreFlight(context.Context, framework.CycleState, *v1.Pod,
	string) (*framework.PreBindPreFlightResult, *framework.Status) {
	return nil, nil
}

func (x *hookPlugin) PreBind(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	if x.preBind != nil {
		return x.preBind(p)
	}
	return nil
}

func withHookPlugin(t *testing.T, x *hookPlugin) func(*Options) {
	t.Helper()
	cfg, err := config.Load(
		[]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: "+
			"{multiPoint: {enabled: [{name: Probe}]}}\n"), "Probe")
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) {
		o.Config = cfg
		o.Plugins = map[string]plugins.Factory{"Probe": func(context.Context, runtime.Object,
			framework.Handle) (framework.Plugin, error) {
			return x, nil
		}}
	}
}

// TestOneSchedulingCycleBesideBindingCycles: no scheduling cycle begins before the one before it
// has chosen a node, but it does not wait for the binding.
// row: SCH-03
func TestOneSchedulingCycleBesideBindingCycles(t *testing.T) {
	t.Parallel()
	const pods = 20
	var attempted atomic.Int32
	var twice, began atomic.Int32
	all := make(chan struct{})
	x := &hookPlugin{
		preFilter: func(*v1.Pod) {
			if attempted.Add(1) > 1 {
				twice.Add(1)
			}
			if began.Add(1) == pods {
				close(all)
			}
		},
		reserve: func(*v1.Pod) { attempted.Add(-1) },
		preBind: func(*v1.Pod) *framework.Status { // no Pod is bound before every cycle has started
			select {
			case <-all:
			case <-time.After(patience):
				t.Error("no cycle begins while Pods are being bound")
			}
			return nil
		},
	}
	c := start(t, withHookPlugin(t, x), aNode("n1", "64"), aNode("n2", "64"))
	for i := range pods {
		c.create(aPod(fmt.Sprintf("p%d", i), "1"))
	}
	for i := range pods {
		c.bound(fmt.Sprintf("p%d", i))
	}
	if n := twice.Load(); n > 0 {
		t.Errorf("%d cycles began while another was open", n)
	}
}

// row: SCH-14
func TestSlowWorkBeforeBindingDelaysItAndItsFailureGivesTheNodeBack(t *testing.T) {
	t.Parallel()
	release, inside := make(chan struct{}), make(chan struct{})
	var once sync.Once
	given := make(chan string, 4)
	x := &hookPlugin{
		preBind: func(p *v1.Pod) *framework.Status {
			switch p.Name {
			case "slow":
				close(inside)
				<-release
			case "fails":
				failed := false
				once.Do(func() { failed = true })
				if failed {
					return framework.NewStatus(framework.Error, "no volume could be made")
				}
			}
			return nil
		},
		unreserve: func(p *v1.Pod) { given <- p.Name },
	}
	c := start(t, withHookPlugin(t, x), aNode("n1", "1"))
	c.create(aPod("slow", "1"))
	select {
	case <-inside:
	case <-time.After(patience):
		t.Fatal("PreBind was not called")
	}
	c.create(aPod("next", "1"))
	c.refused("next", "0/1 nodes are available: 1 Insufficient cpu."+preemptionEnd+
		"0/1 nodes are available: 1 No preemption victims found for incoming pod.")
	c.mu.Lock()
	if len(c.bindings) > 0 {
		t.Errorf("bound before the work was done: %v", c.bindings)
	}
	c.mu.Unlock()
	close(release)
	c.bound("slow")

	d := start(t, withHookPlugin(t, x), aNode("n1", "1"))
	d.create(aPod("fails", "1"))
	select {
	case got := <-given:
		if got != "fails" {
			t.Errorf("%s gave its node back", got)
		}
	case <-time.After(patience):
		t.Fatal("PreBind failed, and nobody gave the node back")
	}
	d.bound("fails") // the node was free again
}

// TestScoringMakesNoAPIRequests counts every request between the moments when scoring begins and
// when a node is chosen.
// row: SCH-27
func TestScoringMakesNoAPIRequests(t *testing.T) {
	t.Parallel()
	var scoring atomic.Bool
	var scored, requests atomic.Int32
	x := &hookPlugin{preScoring: func() { scoring.Store(true) }, score: func() { scored.Add(1) },
		reserve: func(*v1.Pod) { scoring.Store(false) }}
	c := start(t, withHookPlugin(t, x), aNode("n1", "4", zone("a")), aNode("n2", "4", zone("b")),
		aPod("there", "1", onNode("n1", 0), func(p *v1.Pod) {
			p.Namespace, p.Labels = "other", map[string]string{"app": "web"}
			keepsAway(p, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}})
		}))
	c.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if scoring.Load() && !isWatch(a) {
			requests.Add(1)
		}
		return false, nil, nil
	})
	c.create(aPod("web", "1", func(p *v1.Pod) {
		p.Labels = map[string]string{"app": "web", "team": "a"} // both Pods' terms ask for namespaces' labels
		same := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone,
			WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: same}}
		keepsAway(p, same)
	}))
	c.boundAt("web") // which asks the API nothing
	if scored.Load() != 2 || requests.Load() != 0 {
		t.Errorf("%d nodes scored, %d requests meanwhile", scored.Load(), requests.Load())
	}
	for _, a := range c.Actions() { // nor does what plugins prepare before they score
		if _, ok := a.(clienttesting.GetAction); ok && a.GetVerb() == "get" {
			t.Errorf("asked the API for %s %v, want informers to be asked", a.GetResource().Resource, a)
		}
	}
}

// keepsAway has the Pod keep away from those of selected namespaces, if it can.
func keepsAway(p *v1.Pod, s *metav1.LabelSelector) {
	p.Spec.Affinity = &v1.Affinity{
		PodAntiAffinity: &v1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
				{Weight: 5, PodAffinityTerm: v1.PodAffinityTerm{TopologyKey: v1.LabelHostname,
					LabelSelector: s, NamespaceSelector: s}}}}}
}

func isWatch(a clienttesting.Action) bool { return a.GetVerb() == "watch" }

func zone(name string) func(*v1.Node) {
	return func(n *v1.Node) { n.Labels[v1.LabelTopologyZone] = name }
}

// row: SCH-31
func TestBoundPodUpdatesStartNoCycle(t *testing.T) {
	t.Parallel()
	r := metrics.NewKubeRegistry()
	c := start(t, func(o *Options) { o.Metrics = r }, aNode("n1", "4"))
	c.create(aPod("web", "1"))
	c.bound("web")
	p, err := c.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Labels = map[string]string{"more": "labels"}
	if _, err := c.CoreV1().Pods("default").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.create(aPod("after", "1")) // comes by the same watch: once it is bound, the label has been seen
	c.bound("after")
	results := 0
	for _, f := range c.notes.factsOf("web") {
		if _, ok := f.(journal.Ruled); ok {
			results++
		}
	}
	if results != 1 {
		t.Errorf("%d results: %v", results, c.notes.factsOf("web"))
	}
}

// row: FIL-05
func TestPreferencesNeverVeto(t *testing.T) {
	t.Parallel()
	busy := func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{{Key: "busy", Effect: v1.TaintEffectPreferNoSchedule}}
	}
	c := start(t, nil, aNode("n1", "8", busy), aNode("n2", "8", busy))
	prefers := func(terms ...v1.NodeSelectorTerm) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}}
			for _, t := range terms {
				p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
					p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
					v1.PreferredSchedulingTerm{Weight: 100, Preference: t})
			}
		}
	}
	oneOf := func(key, value string) []v1.NodeSelectorRequirement {
		return []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}}}
	}
	labels := v1.NodeSelectorTerm{MatchExpressions: oneOf("disk", "ssd")}
	name := v1.NodeSelectorTerm{MatchFields: oneOf("metadata.name", "gone")}
	same := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for pod, change := range map[string]func(*v1.Pod){
		"web":  prefers(labels),
		"name": prefers(name),
		"both": prefers(labels, name),
		"away": func(p *v1.Pod) { keepsAway(p, &metav1.LabelSelector{}) },
		"over": func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "rack",
				WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: same}}
		},
	} {
		c.create(aPod(pod, "1", change))
		c.bound(pod)
	}
}

// row: FIL-08
func TestACordonLeavesPodsWhereTheyAre(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "4"))
	c.create(aPod("stays", "1"))
	c.bound("stays")
	n := aNode("n1", "4")
	n.Spec.Unschedulable = true
	if _, err := c.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Nodes().Create(t.Context(), aNode("n2", "100m"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.create(aPod("after", "100m", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n2"} }))
	c.bound("after") // so that the cordon, which came before that node, has been seen too
	c.create(aPod("late", "1"))
	c.await("late", "refused", isUnschedulable)
	if p, err := c.CoreV1().Pods("default").Get(t.Context(), "stays", metav1.GetOptions{}); err != nil ||
		p.DeletionTimestamp != nil || p.Spec.NodeName != "n1" {
		t.Errorf("got %+v, %v, want no error, no DeletionTimestamp and NodeName n1", p, err)
	}
	for _, a := range c.Actions() {
		if a.GetVerb() == "delete" || a.GetSubresource() == "eviction" {
			t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// row: FIL-14
func TestRoomIsWhatIsAllocatable(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "3", func(n *v1.Node) { // of 4, 1 is kept for system and kubelet
		n.Status.Capacity = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"),
			v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("110")}
	}))
	c.create(aPod("large", "3500m"))
	c.await("large", "refused", isUnschedulable)
	c.create(aPod("fits", "3"))
	c.bound("fits")
}

// row: FIL-21
func TestThreePodsOverThreeZonesLandOneInEach(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "64", zone("a")), aNode("n2", "2", zone("b")), aNode("n3", "2", zone("c")))
	for i := range 3 {
		c.create(aPod(fmt.Sprintf("web-%d", i), "1", func(p *v1.Pod) {
			p.Labels = map[string]string{"app": "web"}
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}
		}))
	}
	on := map[string]int{}
	for i := range 3 {
		on[c.bound(fmt.Sprintf("web-%d", i))]++
	}
	if len(on) != 3 {
		t.Errorf("landed on %v", on)
	}
}

// TestANodeWithLessThanNothingTakesNobody: allocatable below zero is possible while a kubelet
// reserves more than there is.
func TestANodeWithLessThanNothingTakesNobody(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "-1"), aNode("n2", "2"))
	for i := range 2 {
		c.create(aPod(fmt.Sprintf("p%d", i), "1"))
	}
	for i := range 2 {
		if got := c.bound(fmt.Sprintf("p%d", i)); got != "n2" {
			t.Errorf("p%d is on %s", i, got)
		}
	}
	c.create(aPod("late", "1"))
	c.await("late", "refused", isUnschedulable)
}

// TestAnAPIServerThatIsAwayForAWhile: while it is away nothing is bound, afterwards everything is,
// once.
func TestAnAPIServerThatIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	const pods = 10
	var away atomic.Bool
	var refused atomic.Int32
	away.Store(true)
	seconds := int64(1)
	c := start(t, func(o *Options) {
		o.Config = config.Default()
		o.Config.PodMaxBackoffSeconds = &seconds
	}, aNode("n1", "64"))
	c.PrependReactor("*", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if away.Load() && a.GetSubresource() != "" {
			refused.Add(1)
			return true, nil, fmt.Errorf("dial tcp 127.0.0.1:6443: connect: connection refused")
		}
		return false, nil, nil
	})
	for i := range pods {
		c.create(aPod(fmt.Sprintf("p%d", i), "1"))
	}
	for end := time.Now().Add(patience); refused.Load() < pods && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
	c.mu.Lock()
	if len(c.bindings) > 0 {
		t.Errorf("bound while it was away: %v", c.bindings)
	}
	c.mu.Unlock()
	away.Store(false)
	for i := range pods {
		c.boundAt(fmt.Sprintf("p%d", i))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	times := map[string]int{}
	for _, b := range c.bindings {
		if times[b.Name]++; times[b.Name] > 1 {
			t.Errorf("Pod %s was bound %d times", b.Name, times[b.Name])
		}
	}
}

// TestNominatedNodeNameIsSetBeforeBinding: while something is prepared for a Pod, its status names
// the node, whose room is not kept twice. When that fails the status names none.
func TestNominatedNodeNameIsSetBeforeBinding(t *testing.T) {
	t.Parallel()
	release, tries := make(chan struct{}), atomic.Int32{}
	c := start(t, withHookPlugin(t, &hookPlugin{preBind: func(p *v1.Pod) *framework.Status {
		if p.Name == "slow" && tries.Add(1) == 1 {
			<-release
			return framework.AsStatus(errors.New("the volume is not there yet"))
		}
		return nil
	}}), aNode("n1", "4"))
	c.create(aPod("slow", "2"))
	p := c.await("slow", "its nominated node is set",
		func(p *v1.Pod) bool { return p.Status.NominatedNodeName == "n1" })
	if p.Spec.NodeName != "" {
		t.Error("the Pod is bound before what it needs is prepared")
	}
	c.create(aPod("beside", "2")) // fits only if the slow one's room is counted once
	c.bound("beside")
	close(release)
	c.event("slow", "FailedScheduling", "running PreBind plugin \"Probe\": the volume is not there yet")
	c.await("slow", "its nominated node is cleared",
		func(p *v1.Pod) bool { return p.Spec.NodeName == "" && p.Status.NominatedNodeName == "" })
	c.bound("slow")
}
