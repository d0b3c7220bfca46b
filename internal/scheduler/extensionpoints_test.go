package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
)

// allPointsPlugin is a plugin at every extension point, which notes where it was asked.
type allPointsPlugin struct {
	handle framework.Handle
	args   runtime.Object
	mu     sync.Mutex
	called []string
	permit func() (*framework.Status, time.Duration)
	filter framework.Code
	status func(point string) *framework.Status // what it says at a point; nil, or a nil status: as usual

	postBind func()
}

func (e *allPointsPlugin) record(point string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.called = append(e.called, point)
}

// ask notes the point and gives the status that the test wants there.
func (e *allPointsPlugin) ask(point string) *framework.Status {
	e.record(point)
	if e.status == nil {
		return nil
	}
	return e.status(point)
}

// attempts are the points of each attempt, those that follow each other once. A Pod whose
// PreFilter does not succeed is asked about again, without what the scheduler remembers.
func (e *allPointsPlugin) attempts() (out []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var now []string
	for _, point := range e.called {
		switch {
		case point == "PreEnqueue":
			continue
		case point == "PreFilter" && len(now) > 0 && now[len(now)-1] != point:
			out, now = append(out, strings.Join(slices.Compact(now), " ")), nil
		}
		now = append(now, point)
	}
	return append(out, strings.Join(slices.Compact(now), " "))
}

func (e *allPointsPlugin) Called() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(slices.Compact(slices.Clone(e.called)), " ")
}

func (*allPointsPlugin) Name() string { return "Everywhere" }

func (e *allPointsPlugin) PreEnqueue(context.Context, *v1.Pod) *framework.Status {
	e.record("PreEnqueue")
	return nil
}

func (e *allPointsPlugin) PreFilter(context.Context, framework.CycleState, *v1.Pod,
	[]framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	return nil, e.ask("PreFilter")
}

func (*allPointsPlugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func (e *allPointsPlugin) Filter(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) *framework.Status {
	if s := e.ask("Filter"); s != nil {
		return s
	}
	return framework.NewStatus(e.filter)
}

func (e *allPointsPlugin) PostFilter(context.Context, framework.CycleState, *v1.Pod,
	framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	e.record("PostFilter")
	return nil, framework.NewStatus(framework.Unschedulable, "nothing helps")
}

func (e *allPointsPlugin) PreScore(context.Context, framework.CycleState, *v1.Pod,
	[]framework.NodeInfo) *framework.Status {
	return e.ask("PreScore")
}

func (e *allPointsPlugin) Score(_ context.Context, _ framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	return int64(len(n.Node().Name)) * 500, e.ask("Score")
}

func (e *allPointsPlugin) ScoreExtensions() framework.ScoreExtensions { return e }

func (e *allPointsPlugin) NormalizeScore(_ context.Context, _ framework.CycleState, _ *v1.Pod,
	scores framework.NodeScoreList) *framework.Status {
	for i := range scores {
		scores[i].Score /= 20
	}
	return e.ask("NormalizeScore")
}

func (e *allPointsPlugin) Reserve(context.Context, framework.CycleState, *v1.Pod, string) *framework.Status {
	return e.ask("Reserve")
}

func (e *allPointsPlugin) Unreserve(context.Context, framework.CycleState, *v1.Pod, string) {
	e.record("Unreserve")
}

func (e *allPointsPlugin) Permit(context.Context, framework.CycleState, *v1.Pod,
	string) (*framework.Status, time.Duration) {
	if s := e.ask("Permit"); s != nil {
		return s, 0
	}
	if e.permit != nil {
		return e.permit()
	}
	return nil, 0
}

func (e *allPointsPlugin) PreBindPreFlight(context.Context, framework.CycleState, *v1.Pod,
	string) (*framework.PreBindPreFlightResult, *framework.Status) {
	return nil, nil
}

func (e *allPointsPlugin) PreBind(context.Context, framework.CycleState, *v1.Pod, string) *framework.Status {
	return e.ask("PreBind")
}

func (e *allPointsPlugin) Bind(context.Context, framework.CycleState, *v1.Pod, string) *framework.Status {
	if s := e.ask("Bind"); s != nil {
		return s
	}
	return framework.NewStatus(framework.Skip)
}

func (e *allPointsPlugin) PostBind(context.Context, framework.CycleState, *v1.Pod, string) {
	e.record("PostBind")
	if e.postBind != nil {
		e.postBind()
	}
}

// withPlugin compiles the plugin in and enables it for the default profile, before the default
// binder; extra is more configuration of the profile.
func withPlugin(t *testing.T, e *allPointsPlugin, extra string) func(*Options) {
	t.Helper()
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n   " +
		" multiPoint: {enabled: [{name: Everywhere}]}\n    bind: {enabled: [{name: Everywhere}, {name: " +
		"DefaultBinder}]}\n" + extra
	cfg, err := config.Load([]byte(text), "Everywhere")
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) {
		o.Config = cfg
		o.Plugins = map[string]plugins.Factory{"Everywhere": func(_ context.Context, args runtime.Object,
			h framework.Handle) (framework.Plugin, error) {
			e.handle, e.args = h, args
			return e, nil
		}}
	}
}

// row: SCH-04, SCH-05, SCH-07, SCH-15, SCH-16, SCH-24, SCH-26
func TestExtensionPointsRunInOrder(t *testing.T) {
	t.Parallel()
	e := &allPointsPlugin{}
	c := start(t, withPlugin(t, e, "  pluginConfig: [{name: Everywhere, args: {x: 1}}]\n"), aNode("n1", "4"),
		aNode("n22", "4"))
	c.create(aPod("web", "1"))
	if got := c.bound("web"); got != "n22" {
		t.Errorf("bound to %s, want n22, which the plugin scores higher", got)
	}
	c.event("web", "Scheduled", "Successfully assigned default/web to n22")
	if want := "PreEnqueue PreFilter Filter PreScore Score NormalizeScore Reserve Permit PreBind Bind " +
		"PostBind"; e.Called() != want {
		t.Errorf("asked %s\n want %s", e.Called(), want)
	}
	if u, ok := e.args.(*runtime.Unknown); !ok || string(u.Raw) != `{"x":1}` {
		t.Errorf("arguments %#v", e.args)
	}
	if e.handle.ProfileName() != "default-scheduler" || e.handle.ClientSet() == nil || e.handle.EventRecorder() == nil {
		t.Errorf("got profile %q, client set %v, recorder %v, want default-scheduler and both of the others",
			e.handle.ProfileName(), e.handle.ClientSet(), e.handle.EventRecorder())
	}
	if l, err := e.handle.SnapshotSharedLister().NodeInfos().List(); err != nil || len(l) != 2 {
		t.Errorf("snapshot lister: %d nodes, %v", len(l), err)
	}
	for _, a := range c.Actions() {
		if a.GetVerb() == "get" && a.GetResource().Resource == "nodes" {
			t.Errorf("a read through the API: %v", a)
		}
	}
}

// row: SCH-16
func TestAnErrorAfterTheBindingUndoesNothing(t *testing.T) {
	t.Parallel()
	e := &allPointsPlugin{postBind: func() { panic("no side effect today") }}
	c := start(t, withPlugin(t, e, ""), aNode("n1", "1"))
	c.create(aPod("web", "1"))
	c.bound("web")
	c.event("web", "Scheduled", "Successfully assigned default/web to n1")
	if strings.Contains(e.Called(), "Unreserve") {
		t.Errorf("asked %s, want nothing unreserved", e.Called())
	}
	c.create(aPod("next", "1"))
	c.refused("next", "0/1 nodes are available: 1 Insufficient cpu."+preemptionEnd+
		"0/1 nodes are available: 1 No preemption victims found for incoming pod., nothing helps")
}

// row: SCH-04, SCH-05, SCH-08
func TestNoNodeGoesToPostFilterOnly(t *testing.T) {
	t.Parallel()
	e := &allPointsPlugin{filter: framework.Unschedulable}
	c := start(t, withPlugin(t, e, ""), aNode("n1", "4"))
	c.create(aPod("web", "1"))
	c.await("web", "refused", func(p *v1.Pod) bool { return scheduled(p) != nil })
	if want := "PreEnqueue PreFilter Filter PostFilter"; !strings.HasPrefix(e.Called(), want) ||
		strings.Contains(e.Called(), "Score") {
		t.Errorf("asked %s, want %s", e.Called(), want)
	}
	c.awaitFact("web", "among the unschedulable Pods", func(f journal.Fact) bool {
		q, ok := f.(journal.Queued)
		return ok && q.Queue == "unschedulable"
	})
}

// A Pod for which a node was found and that is refused afterwards makes no room for itself.
//
// row: SCH-05
func TestNoPostFilterOnceANodeWasFound(t *testing.T) {
	t.Parallel()
	e := &allPointsPlugin{permit: func() (*framework.Status, time.Duration) {
		return framework.NewStatus(framework.Unschedulable, "not today"), 0
	}}
	c := start(t, withPlugin(t, e, ""), aNode("n1", "4"))
	c.create(aPod("web", "1"))
	c.await("web", "refused", func(p *v1.Pod) bool { return scheduled(p) != nil })
	if got := e.Called(); !strings.Contains(got, "Permit Unreserve") || strings.Contains(got, "PostFilter") {
		t.Errorf("asked %s, want Unreserve after Permit and no PostFilter", got)
	}
}

// row: SCH-10, SCH-12
func TestPermitMakesAPodWait(t *testing.T) {
	t.Parallel()
	e := &allPointsPlugin{permit: func() (*framework.Status, time.Duration) {
		return framework.NewStatus(framework.Wait), time.Minute
	}}
	c := start(t, withPlugin(t, e, ""), aNode("n1", "1"))
	c.create(aPod("web", "1"))
	var waiting framework.WaitingPod
	for end := time.Now().Add(patience); waiting == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		e.mu.Lock()
		h := e.handle
		e.mu.Unlock()
		waiting = h.GetWaitingPod("uid-web")
	}
	if waiting == nil || strings.Join(waiting.GetPendingPlugins(), " ") != "Everywhere" {
		t.Fatalf("the Pod does not wait: %v", waiting)
	}
	c.create(aPod("next", "1")) // the node has room for one, and web has claimed it
	c.await("next", "refused", func(p *v1.Pod) bool {
		return scheduled(p) != nil && strings.HasPrefix(scheduled(p).Message,
			"0/1 nodes are available: 1 Insufficient cpu.")
	})
	waiting.Allow("Everywhere")
	c.bound("web")
}

// row: SCH-10, SCH-13
func TestAPodThatWaitsMayBeRejected(t *testing.T) {
	t.Parallel()
	e := &allPointsPlugin{permit: func() (*framework.Status, time.Duration) {
		return framework.NewStatus(framework.Wait), time.Hour
	}}
	c := start(t, withPlugin(t, e, ""), aNode("n1", "1"))
	c.create(aPod("web", "1"))
	c.awaitFacts("the Pod waits at Permit", func() bool {
		e.mu.Lock()
		h := e.handle
		e.mu.Unlock()
		return h.GetWaitingPod("uid-web") != nil
	})
	e.handle.RejectWaitingPod("uid-web")
	c.await("web", "refused", func(p *v1.Pod) bool {
		s := scheduled(p)
		return s != nil && s.Status == v1.ConditionFalse && strings.HasPrefix(s.Message, "0/1 nodes are available: 1 ")
	})
	if got := e.attempts()[0]; !strings.HasSuffix(got, "Permit Unreserve") {
		t.Errorf("asked %s, want it to end with Permit Unreserve", got)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bindings) > 0 {
		t.Errorf("bindings: %v, want none", c.bindings)
	}
}

// row: SCH-10, SCH-13
func TestPermitTimesOut(t *testing.T) {
	t.Parallel()
	e := &allPointsPlugin{permit: func() (*framework.Status, time.Duration) {
		return framework.NewStatus(framework.Wait), 10 * time.Millisecond
	}}
	c := start(t, withPlugin(t, e, ""), aNode("n1", "1"))
	c.create(aPod("web", "1"))
	c.refused("web", "0/1 nodes are available: 1 rejected due to timeout after waiting 10ms at plugin Everywhere.")
	if !strings.Contains(e.Called(), "Permit Unreserve") {
		t.Errorf("asked %s: the claim was not taken back", e.Called())
	}
}

// row: SCH-18, SCH-19, SCH-21, SCO-02
// row: SCO-04
func TestEachProfileHasItsPlugins(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
- schedulerName: packer
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
- schedulerName: weighed
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: ImageLocality}, {name: NodeResourcesFit, weight: 7}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, func(o *Options) { o.Config = cfg }, aNode("n1", "4"), aNode("n2", "4"),
		aPod("there", "1", func(p *v1.Pod) { p.Spec.NodeName = "n1" }))
	c.create(aPod("spread", "1"))
	if got := c.bound("spread"); got != "n2" {
		t.Errorf("the default profile spreads: bound to %s", got)
	}
	c.create(aPod("there2", "1", func(p *v1.Pod) { p.Spec.NodeName = "n1" }))
	c.create(aPod("pack", "1", func(p *v1.Pod) { p.Spec.SchedulerName = "packer" }))
	if got := c.bound("pack"); got != "n1" {
		t.Errorf("the packer packs: bound to %s", got)
	}
	parts := func(name string) string {
		for _, f := range c.notes.factsOf(name) {
			if r, ok := f.(journal.Ruled); ok {
				return r.Profile + fmt.Sprint(r.Scores[0].Parts)
			}
		}
		return ""
	}
	if got := parts("spread"); !strings.HasPrefix(got, "default-scheduler") || strings.Contains(got, "Balanced") {
		t.Errorf("scores of the default profile: %s", got)
	}
	if got := parts("pack"); !strings.HasPrefix(got, "packer") || !strings.Contains(got, "Balanced") {
		t.Errorf("scores of the packer: got %s, want it to begin with %q and it to contain %q", got, "packer",
			"Balanced")
	}
	c.create(aPod("weigh", "1", func(p *v1.Pod) { p.Spec.SchedulerName = "weighed" }))
	c.bound("weigh")
	// of n2: half of the cpu is left, and all but 400Mi of 8Gi: (50+95)/2
	want := "weighed[{ImageLocality 0 0 1 0} {NodeResourcesFit 72 72 7 504}]"
	if got := parts("weigh"); got != want {
		t.Errorf("scores of the profile with two plugins: %s, want %s", got, want)
	}
}

// A plugin that one profile has is not asked about the Pods of another, at any point.
//
// row: SCH-21
func TestAPluginOfOneProfileIsNotAskedForAnother(t *testing.T) {
	t.Parallel()
	e := &allPointsPlugin{}
	with := withPlugin(t, e, "  schedulerName: default-scheduler\n- schedulerName: plain\n")
	c := start(t, with, aNode("n1", "4"))
	c.create(aPod("other", "1", func(p *v1.Pod) { p.Spec.SchedulerName = "plain" }))
	c.bound("other")
	if got := e.Called(); got != "" {
		t.Errorf("asked %s for a Pod of the profile without the plugin, want nothing", got)
	}
	c.create(aPod("web", "1"))
	c.bound("web")
	c.event("web", "Scheduled", "Successfully assigned default/web to n1")
	if got := e.Called(); !strings.Contains(got, "Reserve Permit PreBind Bind") {
		t.Errorf("asked %s for a Pod of its own profile", got)
	}
}

// Which reason a log line gives for the node.
//
// row: SCO-03, SCO-18
func TestWhyANodeWasSelectedIsLogged(t *testing.T) {
	visited := func(n int) journal.Sample { return journal.Sample{Visited: n} }
	for want, f := range map[string]journal.Ruled{
		`"node"="n1" "reason"="highest score"`: {Winner: "n1", Nodes: 3, Sample: visited(3), Feasible: 2, Ties: 1},
		`"node"="n1" "reason"="highest score, chosen among equals"`: {Winner: "n1", Nodes: 3, Sample: visited(3),
			Feasible: 3, Ties: 2},
		`"node"="n2" "reason"="only feasible node"`: {Winner: "n2", Nodes: 3, Sample: visited(3), Feasible: 1, Ties: 1},
		`"feasibleNodes"=2 "totalNodes"=8 "sampledFraction"=0.5`: {Winner: "n1", Nodes: 8, Sample: visited(4),
			Feasible: 2, Ties: 1},
		`"totalNodes"=8 "visitedNodes"=8 "message"="0/8 nodes"`: {Nodes: 8, Sample: visited(8), Message: "0/8 nodes"},
	} {
		var log strings.Builder
		logResult(funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{Verbosity: 4}),
			&schedulingAttempt{fact: f})
		if !strings.Contains(log.String(), want) {
			t.Errorf("got %s, want %s", log.String(), want)
		}
	}
}

func TestUnknownPluginIsAnError(t *testing.T) {
	t.Parallel()
	_, err := config.Load(
		[]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: " +
			"{multiPoint: {enabled: [{name: CapacityScheduling}]}}\n"))
	if err == nil || !strings.Contains(err.Error(),
		`profiles[0].plugins.multiPoint.enabled[0].name: Not found: "CapacityScheduling"`) {
		t.Errorf("got %v", err)
	}
}

// row: SCO-17, SCO-18, SCO-19, BND-16
// row: SCO-03
func TestLogHasTheScores(t *testing.T) {
	t.Parallel()
	for _, verbosity := range []int{2, 4} {
		var mu sync.Mutex
		var lines []string
		logger := funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, args)
		}, funcr.Options{Verbosity: verbosity})
		c := startWith(t, klog.NewContext(context.Background(), logger), aNode("n1", "4"), aNode("n2", "8"))
		c.create(aPod("web", "1"))
		c.bound("web")
		c.event("web", "Scheduled", "Successfully assigned default/web to n2")
		mu.Lock()
		log := strings.Join(lines, "\n")
		mu.Unlock()
		for msg, least := range map[string]int{"Scheduling pod": 4, "Filter passed": 4, "Score result": 4,
			"Selected node": 4, "Successfully bound pod to node": 2} {
			if got := strings.Contains(log, `"msg"="`+msg+`"`); got != (verbosity >= least) {
				t.Errorf("-v=%d: %q is in the log: %v\n%s", verbosity, msg, got, log)
			}
		}
		fields := []string{`"msg"="Successfully bound pod to node" POD "node"="n2"`}
		if verbosity == 4 {
			checkTotals(t, log)
			fields = append(fields, `"msg"="Scheduling pod" POD "attempt"=1`,
				`"msg"="Filter passed" POD "feasibleNodes"=2 "totalNodes"=2 "sampledFraction"=1`,
				`"msg"="Score result" POD "node"="n1" "total"=\d+ .*"NodeResourcesFit"=\d+`,
				`"msg"="Score result" POD "node"="n2" "total"=\d+ .*"TaintToleration"=300`,
				`"msg"="Selected node" POD "node"="n2" "reason"="highest score"`)
		}
		for _, want := range fields {
			want = strings.Replace(want, "POD", `"pod"={"name"="web" "namespace"="default"}`, 1)
			if !regexp.MustCompile(want).MatchString(log) {
				t.Errorf("-v=%d: no line matches %s\n%s", verbosity, want, log)
			}
		}
	}
}

var (
	scoreLine = regexp.MustCompile(`"msg"="Score result".* "total"=(\d+) (.*)`)
	scorePart = regexp.MustCompile(`"[A-Z]\w+"=(\d+)`)
)

func checkTotals(t *testing.T, log string) {
	t.Helper()
	found := scoreLine.FindAllStringSubmatch(log, -1)
	if len(found) != 2 {
		t.Errorf("%d score lines, want one per node", len(found))
	}
	for _, m := range found {
		total, _ := strconv.Atoi(m[1])
		sum := 0
		for _, p := range scorePart.FindAllStringSubmatch(m[2], -1) {
			n, _ := strconv.Atoi(p[1])
			sum += n
		}
		if sum != total {
			t.Errorf("parts of %s add up to %d", m[0], sum)
		}
	}
}

// A patch of a status has the condition, and nothing beside it.
//
// row: SCH-11
func TestFailingWritesNothingButEventAndCondition(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "1"))
	for i := range 100 {
		c.create(aPod(fmt.Sprintf("web-%d", i), "2"))
	}
	for i := range 100 {
		c.refused(fmt.Sprintf("web-%d", i), "0/1 nodes are available: 1 Insufficient cpu."+preemptionEnd+
			"0/1 nodes are available: 1 Preemption is not helpful for scheduling.")
	}
	for _, a := range c.Actions() {
		patched, patch := a.(clienttesting.PatchAction)
		switch r := a.GetResource().Resource; {
		case a.GetVerb() == "list" || a.GetVerb() == "watch" || a.GetVerb() == "get", r == "events":
		case r == "pods" && a.GetVerb() == "create" && a.GetSubresource() == "": // the test's own
		case r == "pods" && patch && a.GetSubresource() == "status":
			var body struct{ Metadata, Status map[string]json.RawMessage }
			if err := json.Unmarshal(patched.GetPatch(), &body); err != nil {
				t.Fatal(err)
			}
			fields := append(slices.Sorted(maps.Keys(body.Metadata)), slices.Sorted(maps.Keys(body.Status))...)
			if want := []string{"uid", "$setElementOrder/conditions", "conditions"}; !slices.Equal(fields, want) {
				t.Fatalf("the status is patched with %s, want the condition alone", patched.GetPatch())
			}
		default:
			t.Errorf("unexpected write %s %s/%s", a.GetVerb(), r, a.GetSubresource())
		}
	}
}
