package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
)

// misbehavingPlugin is a plugin at every point that misbehaves for Pods that say so in their label
// "bad", as POINT-HOW.
type misbehavingPlugin struct{ block chan struct{} }

func (*misbehavingPlugin) Name() string { return "Bad" }

// act panics or hangs at the point, or gives the nonsense asked for; nil otherwise.
func (b *misbehavingPlugin) act(p *v1.Pod, point string) *framework.Status {
	switch p.Labels["bad"] {
	case point + "-panics":
		panic("out of cheese")
	case point + "-hangs":
		<-b.block
	case point + "-says-42":
		return framework.NewStatus(framework.Code(42), "huh")
	case point + "-waits":
		return framework.NewStatus(framework.Wait)
	case point + "-skips":
		return framework.NewStatus(framework.Skip)
	case point + "-has-reasons":
		return framework.NewStatus(framework.Success, "all is well", "or is it")
	}
	return nil
}

func (b *misbehavingPlugin) PreEnqueue(_ context.Context, p *v1.Pod) *framework.Status {
	return b.act(p, "PreEnqueue")
}

func (b *misbehavingPlugin) PreFilter(_ context.Context, _ framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	if p.Labels["bad"] == "PreFilter-nowhere" {
		return &framework.PreFilterResult{NodeNames: sets.New("nowhere")}, nil
	}
	return nil, b.act(p, "PreFilter")
}

func (*misbehavingPlugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func (b *misbehavingPlugin) Filter(_ context.Context, _ framework.CycleState, p *v1.Pod,
	_ framework.NodeInfo) *framework.Status {
	return b.act(p, "Filter")
}

func (b *misbehavingPlugin) PostFilter(_ context.Context, _ framework.CycleState, p *v1.Pod,
	_ framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	if p.Labels["bad"] == "PostFilter-nowhere" {
		return &framework.PostFilterResult{NominatingInfo: &framework.NominatingInfo{NominatedNodeName: "nowhere",
			NominatingMode: framework.ModeOverride}}, nil
	}
	if s := b.act(p, "PostFilter"); s != nil {
		return nil, s
	}
	return nil, framework.NewStatus(framework.Unschedulable)
}

func (b *misbehavingPlugin) PreScore(_ context.Context, _ framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) *framework.Status {
	return b.act(p, "PreScore")
}

func (b *misbehavingPlugin) Score(_ context.Context, _ framework.CycleState, p *v1.Pod,
	_ framework.NodeInfo) (int64, *framework.Status) {
	return map[string]int64{"Score-101": 101, "Score-below": -1}[p.Labels["bad"]], b.act(p, "Score")
}

func (b *misbehavingPlugin) ScoreExtensions() framework.ScoreExtensions { return b }

func (b *misbehavingPlugin) NormalizeScore(_ context.Context, _ framework.CycleState, p *v1.Pod,
	_ framework.NodeScoreList) *framework.Status {
	return b.act(p, "NormalizeScore")
}

func (b *misbehavingPlugin) Reserve(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	return b.act(p, "Reserve")
}

func (b *misbehavingPlugin) Unreserve(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) {
	_ = b.act(p, "Reserve") // it does not get better
}

func (b *misbehavingPlugin) Permit(_ context.Context, _ framework.CycleState, p *v1.Pod,
	_ string) (*framework.Status, time.Duration) {
	return b.act(p, "Permit"), -time.Second
}

func (b *misbehavingPlugin) PreBindPreFlight(_ context.Context, _ framework.CycleState, p *v1.Pod,
	_ string) (*framework.PreBindPreFlightResult, *framework.Status) {
	return nil, b.act(p, "PreBindPreFlight")
}

func (b *misbehavingPlugin) PreBind(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	return b.act(p, "PreBind")
}

func (b *misbehavingPlugin) Bind(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) *framework.Status {
	if s := b.act(p, "Bind"); s != nil {
		return s
	}
	return framework.NewStatus(framework.Skip)
}

func (b *misbehavingPlugin) PostBind(_ context.Context, _ framework.CycleState, p *v1.Pod, _ string) {
	_ = b.act(p, "PostBind")
}

// startMisbehaving starts a scheduler with two nodes and the plugin at every point.
func startMisbehaving(t *testing.T) *cluster {
	t.Helper()
	cfg, err := config.Load(
		[]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"+
			"- plugins: {multiPoint: {enabled: [{name: Bad}]}, bind: {enabled: [{name: Bad}, {name: "+
			"DefaultBinder}]}}\n"), "Bad")
	if err != nil {
		t.Fatal(err)
	}
	b := &misbehavingPlugin{block: make(chan struct{})}
	t.Cleanup(func() { close(b.block) }) // after the scheduler has ended: what hangs must not keep it
	return start(t, func(o *Options) {
		o.Config, o.PluginTimeout = cfg, 50*time.Millisecond
		o.Config.PodMaxBackoffSeconds = new(int64(1))
		o.Plugins = map[string]plugins.Factory{"Bad": func(context.Context, runtime.Object,
			framework.Handle) (framework.Plugin, error) {
			return b, nil
		}}
	}, aNode("n1", "64"), aNode("n2", "64"))
}

// misledPod is the Pod for a case, whose name is that of the case.
func misledPod(how, cpu string) *v1.Pod {
	return aPod(strings.ToLower(how), cpu, func(p *v1.Pod) { p.Labels = map[string]string{"bad": how} })
}

func TestPanickingPluginIsNamedAndHarmsNoOtherPod(t *testing.T) {
	t.Parallel()
	const (
		hung = `plugin "Bad" has not returned within 50ms`
		fell = `plugin "Bad" panicked: out of cheese`
		none = "it answers with the status code 42, which is none"
		idle = "it answers Wait, which means nothing here"
		skip = "it answers Skip, which means nothing here"
	)
	c := startMisbehaving(t)
	cases := map[string]string{
		"PreFilter-panics": fell, "Filter-panics": fell, "PreScore-panics": fell, "Score-panics": fell,
		"NormalizeScore-panics": fell,
		"Reserve-panics":        fell, "Permit-panics": fell, "PreBindPreFlight-panics": fell, "PreBind-panics": fell,
		"Bind-panics":     fell,
		"PreFilter-hangs": hung, "Filter-hangs": hung, "PreScore-hangs": hung, "Score-hangs": hung,
		"NormalizeScore-hangs": hung, "Reserve-hangs": hung, "Permit-hangs": hung,
		"PreFilter-says-42": none, "Filter-says-42": none, "PreScore-says-42": none, "Score-says-42": none,
		"NormalizeScore-says-42": none,
		"Reserve-says-42":        none, "Permit-says-42": none, "PreBindPreFlight-says-42": none,
		"PreBind-says-42": none, "Bind-says-42": none,
		"PreFilter-waits": idle, "Filter-waits": idle, "Score-waits": idle, "Reserve-waits": idle,
		"PreBind-waits": idle, "Bind-waits": idle,
		"Filter-skips": skip, "Score-skips": skip, "NormalizeScore-skips": skip, "Reserve-skips": skip,
		"Permit-skips": skip, "PreBind-skips": skip,
		"Score-101": `plugin "Bad" returns an invalid score 101, it should in the range of [0, 100] after ` +
			`normalizing`,
		"Score-below": `plugin "Bad" returns an invalid score -1, it should in the range of [0, 100] after normalizing`,
	}
	for name := range cases {
		c.create(misledPod(name, "1"))
	}
	// work before a binding may take long: nobody is sent away for it
	held := []string{"PreBind-hangs", "Bind-hangs", "PreBindPreFlight-hangs"}
	well := []string{"Filter-has-reasons", "Reserve-has-reasons", "PreBind-has-reasons", "PreBindPreFlight-skips",
		"PostBind-panics", "PostBind-hangs", "good"}
	for _, name := range slices.Concat(held, well) {
		c.create(misledPod(name, "1"))
	}
	for _, name := range well {
		c.bound(strings.ToLower(name))
	}
	for name, want := range cases {
		c.await(strings.ToLower(name), "refused with "+want, func(p *v1.Pod) bool {
			cond := scheduled(p)
			return cond != nil && cond.Reason == v1.PodReasonSchedulerError && strings.Contains(cond.Message, want)
		})
	}
	for _, name := range held {
		if p := c.await(strings.ToLower(name), "there", func(*v1.Pod) bool { return true }); p.Spec.NodeName != "" {
			t.Errorf("%s is bound to %s, which its plugin has not done, want none", name, p.Spec.NodeName)
		}
	}
}

func TestPluginStatusIsReportedVerbatim(t *testing.T) {
	t.Parallel()
	c := startMisbehaving(t)
	for name, want := range map[string]string{
		"PreFilter-nowhere":  "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [Bad].",
		"Permit-waits":       "0/1 nodes are available: 1 rejected due to timeout after waiting -1s at plugin Bad.",
		"PostFilter-panics":  `plugin "Bad" panicked: out of cheese`,
		"PostFilter-hangs":   `plugin "Bad" has not returned within 50ms`,
		"PostFilter-says-42": "it answers with the status code 42, which is none",
		"PostFilter-waits":   "it answers Wait, which means nothing here",
	} {
		cpu := "1"
		if strings.HasPrefix(name, "PostFilter") {
			cpu = "1000" // fits nowhere
		}
		c.create(misledPod(name, cpu))
		c.await(strings.ToLower(name), "refused with "+want, func(p *v1.Pod) bool {
			cond := scheduled(p)
			return cond != nil && cond.Reason == v1.PodReasonUnschedulable && strings.Contains(cond.Message, want)
		})
	}
	c.create(misledPod("PreEnqueue-panics", "1"))
	c.create(misledPod("PreEnqueue-hangs", "1"))
	c.create(misledPod("PostFilter-nowhere", "100"))
	c.await("postfilter-nowhere", "nominated to a node that is not there",
		func(p *v1.Pod) bool { return p.Status.NominatedNodeName == "nowhere" })
	if _, err := c.CoreV1().Nodes().Create(t.Context(), aNode("n3", "100"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := c.bound("postfilter-nowhere"); got != "n3" { // the nomination kept it from nothing
		t.Errorf("it is on %s, want n3", got)
	}
	for _, name := range []string{"preenqueue-panics", "preenqueue-hangs"} {
		facts := fmt.Sprint(c.notes.factsOf(name))
		if !strings.Contains(facts, "gated") || !strings.Contains(facts, "Bad") || strings.Contains(facts, "Ruled") {
			t.Errorf("%s: got %s, want facts with gated, facts with Bad and facts without Ruled", name, facts)
		}
	}
}

// countingSort never says which of two Pods goes first.
type countingSort struct {
	misbehavingPlugin
	calls atomic.Int64
}

func (l *countingSort) Less(framework.QueuedEntityInfo, framework.QueuedEntityInfo) bool {
	l.calls.Add(1)
	<-l.block
	return false
}

// It is waited for once, not at every comparison; the ordinary order holds.
func TestHangingQueuePluginIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(
		[]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: "+
			"{queueSort: {enabled: [{name: Bad}]}}\n"), "Bad")
	if err != nil {
		t.Fatal(err)
	}
	l := &countingSort{misbehavingPlugin: misbehavingPlugin{block: make(chan struct{})}}
	t.Cleanup(func() { close(l.block) })
	c := start(t, func(o *Options) {
		o.Config, o.PluginTimeout = cfg, time.Second
		o.Plugins = map[string]plugins.Factory{"Bad": func(context.Context, runtime.Object,
			framework.Handle) (framework.Plugin, error) {
			return l, nil
		}}
	}, aNode("n1", "4"))
	for i := range 40 {
		c.create(aPod(fmt.Sprintf("large-%d", i), "1000")) // these stay in the queue
	}
	for i := range 4 {
		c.create(aPod(fmt.Sprintf("p%d", i), "1"))
	}
	for i := range 4 {
		c.bound(fmt.Sprintf("p%d", i))
	}
	if n := l.calls.Load(); n != 1 {
		t.Errorf("it was asked %d times, want once", n)
	}
}

// badSort is QueueSort and QueueingHint, and panics in both for Pods that say so.
type badSort struct{ misbehavingPlugin }

func (*badSort) Less(a, b framework.QueuedEntityInfo) bool {
	for _, e := range []framework.QueuedEntityInfo{a, b} {
		if p, ok := e.(interface{ GetPod() *v1.Pod }); ok && p.GetPod().Labels["bad"] == "Less-panics" {
			panic("which is which?")
		}
	}
	return a.GetPriority() > b.GetPriority()
}

func (*badSort) Filter(_ context.Context, _ framework.CycleState, p *v1.Pod, n framework.NodeInfo) *framework.Status {
	if p.Labels["bad"] == "hint-panics" && n.Node().Labels["good"] == "" {
		return framework.NewStatus(framework.Unschedulable, "not good")
	}
	return nil
}

func (*badSort) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{{
		Event:          framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add},
		QueueingHintFn: func(klog.Logger, *v1.Pod, any, any) (framework.QueueingHint, error) { panic("no hint") },
	}}, nil
}

// A plugin that panics in QueueSort or QueueingHint loses no Pod.
func TestPanicInTheQueueLosesNoPod(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(
		[]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"+
			"- plugins: {queueSort: {enabled: [{name: Bad}]}, filter: {enabled: [{name: Bad}]}}\n"), "Bad")
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, func(o *Options) {
		o.Config = cfg
		o.Plugins = map[string]plugins.Factory{"Bad": func(context.Context, runtime.Object,
			framework.Handle) (framework.Plugin, error) {
			return &badSort{}, nil
		}}
	}, aNode("n1", "64"))
	c.create(misledPod("hint-panics", "1"))
	c.await("hint-panics", "refused", isUnschedulable)
	for i := range 10 {
		c.create(aPod(fmt.Sprintf("p%d", i), "1",
			func(p *v1.Pod) { p.Labels = map[string]string{"bad": []string{"Less-panics", ""}[i%2]} }))
	}
	for i := range 10 {
		c.bound(fmt.Sprintf("p%d", i))
	}
	if _, err := c.CoreV1().Nodes().Create(t.Context(),
		aNode("n2", "64", func(n *v1.Node) { n.Labels["good"] = "yes" }), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := c.bound("hint-panics"); got != "n2" {
		t.Errorf("it is on %s, want n2", got)
	}
}

// Figures beyond what is counted in bind nobody to a node without room, and keep nobody else from
// one.
func TestFiguresOutOfRange(t *testing.T) {
	t.Parallel()
	nodeWith := func(name, cpu, memory string) *v1.Node {
		return aNode(name, "4", func(n *v1.Node) {
			n.Status.Allocatable[v1.ResourceCPU], n.Status.Allocatable[v1.ResourceMemory] = resource.MustParse(cpu),
				resource.MustParse(memory)
		})
	}
	asks := func(name, cpu, memory string, more ...func(*v1.Pod)) *v1.Pod {
		p := aPod(name, cpu, more...)
		p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse(memory)
		return p
	}
	on := func(p *v1.Pod) { p.Spec.NodeName = "crowded" }
	c := start(t, nil, nodeWith("less", "-4", "-8Gi"), nodeWith("far-less", "-9223372036854775807", "-10E"),
		nodeWith("crowded", "64", "64Gi"))
	for i := range 3 {
		// their sum is beyond what an int64 holds
		c.create(asks(fmt.Sprintf("there-%d", i), "9223372036854775807", "9223372036854775807", on))
	}
	large := map[string][2]string{"cpu-1e": {"1E", "1Gi"}, "cpu-max": {"9223372036854775807", "1Gi"},
		"cpu-10e": {"10E", "1Gi"}, "memory-max": {"1", "9223372036854775807"},
		"memory-over": {"1", "9223372036854775808"}, "memory-10e": {"1", "10E"}, "memory-1e30": {"1", "1e30"}}
	for name, of := range large {
		c.create(asks(name, of[0], of[1]))
	}
	c.create(asks("small", "1", "1Gi"))
	c.await("small", "refused: there is no room left anywhere", isUnschedulable)
	for name := range large {
		if p := c.await(name,
			"refused", func(p *v1.Pod) bool {
				return isUnschedulable(p) ||
					p.Spec.NodeName != ""
			}); p.Spec.NodeName != "" {
			t.Errorf("%s is on %s, want none", name, p.Spec.NodeName)
		}
	}
	if _, err := c.CoreV1().Nodes().Create(t.Context(), nodeWith("good", "4", "8Gi"), metav1.CreateOptions{}); err !=
		nil {
		t.Fatal(err)
	}
	for name := range large { // or they would fill the next node
		if err := c.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.bound("small"); got != "good" {
		t.Errorf("it is on %s, want good", got)
	}
	if _, err := c.CoreV1().Nodes().Create(t.Context(), nodeWith("vast", "9223372036854775807", "9223372036854775807"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		c.create(asks(fmt.Sprintf("next-%d", i), "8", "1Gi"))
	}
	for i := range 3 {
		if got := c.bound(fmt.Sprintf("next-%d", i)); got != "vast" {
			t.Errorf("it is on %s, want vast", got)
		}
	}
}
