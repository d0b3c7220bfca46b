package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/wrappers"
)

// patience is how long a test waits for what takes milliseconds.
var patience = expect.Patience(2 * time.Minute)

// cluster is a scheduler over a clientset in memory, whose binding subresource does what an API
// server's does.
type cluster struct {
	*fake.Clientset
	t        testing.TB
	notes    *recordedFacts
	mu       sync.Mutex
	bindings []v1.Binding
	when     map[string]time.Time
	failBind []error // of the next bindings
	groups   dynamic.Interface
}

type recordedFacts struct {
	mu      sync.Mutex
	facts   map[string][]journal.Fact
	changed chan struct{} // closed at the next fact; nil: nobody waits
}

func (n *recordedFacts) Put(r journal.Ref, f journal.Fact) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.facts[r.Name] = append(n.facts[r.Name], f)
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// next is closed when the next fact is there.
func (n *recordedFacts) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

// awaitFacts looks after every fact of the journal until it sees what it waits for.
func (c *cluster) awaitFacts(what string, ok func() bool) {
	c.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		next := c.notes.next()
		if ok() {
			return
		}
		select {
		case <-next:
		case <-limit.C:
			c.t.Fatalf("never: %s", what)
		}
	}
}

// awaitFact looks at a Pod's facts until one is as wanted.
func (c *cluster) awaitFact(name, what string, ok func(journal.Fact) bool) {
	c.t.Helper()
	c.awaitFacts("Pod "+name+" "+what, func() bool { return slices.ContainsFunc(c.notes.factsOf(name), ok) })
}

func (n *recordedFacts) factsOf(name string) []journal.Fact {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]journal.Fact(nil), n.facts[name]...)
}

func start(t *testing.T, change func(*Options), objects ...runtime.Object) *cluster {
	t.Helper()
	return run(t, context.Background(), change, objects)
}

func startWith(t testing.TB, ctx context.Context, objects ...runtime.Object) *cluster {
	t.Helper()
	return run(t, ctx, nil, objects)
}

func run(t testing.TB, ctx context.Context, change func(*Options), objects []runtime.Object) *cluster {
	t.Helper()
	return runOn(t, ctx, fake.NewClientset(objects...), change)
}

func runOn(t testing.TB, ctx context.Context, clientset *fake.Clientset, change func(*Options)) *cluster {
	t.Helper()
	c := &cluster{when: map[string]time.Time{}, Clientset: clientset, t: t,
		notes: &recordedFacts{facts: map[string][]journal.Fact{}}}
	c.PrependReactor("create", "pods", c.bind)
	o := Options{Client: c, Journal: c.notes, Seed: 1}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *cluster) bind(a clienttesting.Action) (bool, runtime.Object, error) {
	if a.GetSubresource() != "binding" {
		return false, nil, nil
	}
	b := a.(clienttesting.CreateAction).GetObject().(*v1.Binding)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failBind) > 0 {
		err := c.failBind[0]
		c.failBind = c.failBind[1:]
		return true, nil, err
	}
	c.bindings = append(c.bindings, *b)
	c.when[b.Name] = time.Now()
	gvr := v1.SchemeGroupVersion.WithResource("pods")
	obj, err := c.Tracker().Get(gvr, b.Namespace, b.Name)
	if err != nil {
		return true, nil, err
	}
	p := obj.(*v1.Pod).DeepCopy()
	p.Spec.NodeName = b.Target.Name
	return true, b, c.Tracker().Update(gvr, p, b.Namespace)
}

func (c *cluster) create(p *v1.Pod) {
	c.t.Helper()
	if _, err := c.CoreV1().Pods(p.Namespace).Create(c.t.Context(), p, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// await polls the Pod until it is as wanted.
func (c *cluster) await(name, what string, ok func(*v1.Pod) bool) *v1.Pod {
	c.t.Helper()
	var p *v1.Pod
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		var err error
		if p, err = c.CoreV1().Pods("default").Get(c.t.Context(), name, metav1.GetOptions{}); err == nil && ok(p) {
			return p
		}
	}
	raw, _ := json.Marshal(p)
	c.t.Fatalf("Pod %s never %s: %s; journal %v", name, what, raw, c.notes.factsOf(name))
	return nil
}

// boundAt is when a Pod was bound.
func (c *cluster) boundAt(name string) time.Time {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		c.mu.Lock()
		at, ok := c.when[name]
		c.mu.Unlock()
		if ok {
			return at
		}
	}
	c.t.Fatalf("Pod %s was never bound", name)
	return time.Time{}
}

func (c *cluster) bound(name string) string {
	return c.await(name, "bound", func(p *v1.Pod) bool { return p.Spec.NodeName != "" }).Spec.NodeName
}

// refused waits for the PodScheduled condition to be False with the message.
func (c *cluster) refused(name, message string) *v1.Pod {
	return c.await(name, "refused with "+message, func(p *v1.Pod) bool {
		cond := scheduled(p)
		return cond != nil && cond.Status == v1.ConditionFalse && cond.Message == message
	})
}

func scheduled(p *v1.Pod) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == v1.PodScheduled {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func isUnschedulable(p *v1.Pod) bool {
	return scheduled(p) != nil && scheduled(p).Status == v1.ConditionFalse
}

// event waits for an Event about a Pod.
func (c *cluster) event(pod, reason, note string) *eventsv1.Event {
	c.t.Helper()
	var seen []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		list, err := c.EventsV1().Events("default").List(c.t.Context(), metav1.ListOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		seen = nil
		for i := range list.Items {
			e := &list.Items[i]
			if e.Regarding.Name != pod {
				continue
			}
			if e.Reason == reason && e.Note == note {
				return e
			}
			seen = append(seen, e.Reason+": "+e.Note)
		}
	}
	c.t.Fatalf("no event %s %q about %s, only %q", reason, note, pod, seen)
	return nil
}

func aNode(name, cpu string, change ...func(*v1.Node)) *v1.Node {
	return wrappers.MakeNode().Hostname(name).Allocatable(map[v1.ResourceName]string{v1.ResourceCPU: cpu,
		v1.ResourceMemory: "8Gi", v1.ResourcePods: "110"}).Obj(change...)
}

func aPod(name, cpu string, change ...func(*v1.Pod)) *v1.Pod {
	p := wrappers.MakePod().Namespace("default").Name(name).UID("uid-"+name).SchedulerName("default-scheduler").
		Container("c", "i")
	if cpu != "" {
		p.Req(map[v1.ResourceName]string{v1.ResourceCPU: cpu})
	}
	return p.Obj(change...)
}

const preemptionEnd = " preemption: "

// row: BND-01, SCH-01
// row: BND-07
func TestPodIsBoundWithOnePost(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "4"))
	c.create(aPod("web", "1"))
	if got := c.bound("web"); got != "n1" {
		t.Errorf("bound to %q", got)
	}
	e := c.event("web", "Scheduled", "Successfully assigned default/web to n1")
	if e.ReportingController != "default-scheduler" || e.Action != "Binding" || e.Type != "Normal" {
		t.Errorf("event by %s, action %s, type %s", e.ReportingController, e.Action, e.Type)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	want := v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-web"},
		Target: v1.ObjectReference{Kind: "Node", Name: "n1"}}
	if len(c.bindings) != 1 || !reflect.DeepEqual(c.bindings[0], want) {
		t.Errorf("bindings: %+v, want %+v alone", c.bindings, want)
	}
	var kinds []string
	for _, f := range c.notes.factsOf("web") {
		kinds = append(kinds, journal.Kind(f))
	}
	if got := strings.Join(kinds, " "); got != "Queued Ruled Bound" {
		t.Errorf("journal: got %s, want Queued Ruled Bound", got)
	}
	if q, ok := c.notes.factsOf("web")[0].(journal.Queued); !ok || q.Queue != "active" || q.Cause != "PodAdd" {
		t.Errorf("the new Pod: got %+v, want it in the queue active by PodAdd", c.notes.factsOf("web")[0])
	}
}

// Of two Pods of one name each is bound in its own namespace.
//
// row: BND-01
func TestPodIsBoundInItsNamespace(t *testing.T) {
	t.Parallel()
	c := start(t, func(o *Options) { o.Client = strictClient{o.Client} }, aNode("n1", "4"))
	for _, ns := range []string{"prod", "default"} {
		c.create(aPod("web", "1", func(p *v1.Pod) { p.Namespace, p.UID = ns, types.UID("uid-"+ns) }))
		expect.Eventually(t, "a binding of web in "+ns, func() bool {
			p, err := c.CoreV1().Pods(ns).Get(t.Context(), "web", metav1.GetOptions{})
			return err == nil && p.Spec.NodeName == "n1"
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var got []string
	for _, b := range c.bindings {
		got = append(got, fmt.Sprintf("%s/%s %s", b.Namespace, b.Name, b.UID))
	}
	if want := "prod/web uid-prod, default/web uid-default"; strings.Join(got, ", ") != want {
		t.Errorf("bindings: got %s, want %s", strings.Join(got, ", "), want)
	}
}

// row: FIL-23, FIL-24, FIL-25, SCH-08, SCH-30
func TestUnschedulablePodIsRequeuedWhenRoomComes(t *testing.T) {
	t.Parallel()
	full := aPod("full", "4", func(p *v1.Pod) { p.Spec.NodeName = "n1" })
	tainted := aNode("n2", "4",
		func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}} })
	c := start(t, nil, aNode("n1", "4"), tainted, full)
	c.create(aPod("web", "1"))
	text := "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)." + preemptionEnd +
		"0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for " +
		"scheduling."
	p := c.refused("web", text)
	if got := scheduled(p).Reason; got != v1.PodReasonUnschedulable {
		t.Errorf("reason: got %s, want %s", got, v1.PodReasonUnschedulable)
	}
	if e := c.event("web", "FailedScheduling", text); e.Action != "Scheduling" || e.Type != "Warning" {
		t.Errorf("event action %s, type %s", e.Action, e.Type)
	}
	if err := c.CoreV1().Pods("default").Delete(t.Context(), "full", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := c.bound("web"); got != "n1" {
		t.Errorf("bound to %q", got)
	}
	woken := false
	for _, f := range c.notes.factsOf("web") {
		q, ok := f.(journal.Queued)
		woken = woken || ok && q.Cause == "AssignedPodDelete" && q.By == "NodeResourcesFit" &&
			q.Object == "pod/default/full"
	}
	if !woken {
		t.Errorf("the journal does not say who woke the Pod: %v", c.notes.factsOf("web"))
	}
}

// A Pod with two gates is not scheduled before both are gone.
//
// row: SCH-33
func TestGatedPodWaitsForItsGates(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "4"))
	c.create(aPod("gated", "1", func(p *v1.Pod) {
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/g"}, {Name: "example.com/h"}}
	}))
	keepOnly := func(gates ...v1.PodSchedulingGate) {
		t.Helper()
		p := c.await("gated", "found", func(*v1.Pod) bool { return true }).DeepCopy()
		p.Spec.SchedulingGates = gates
		p.Labels = map[string]string{"gates": fmt.Sprint(len(gates))} // a change that has the gates asked
		if _, err := c.CoreV1().Pods("default").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stillGated := func(gates int) {
		t.Helper()
		// comes by the same watch: once it is bound, the gated Pod has been seen
		after := fmt.Sprintf("after-%d", gates)
		c.create(aPod(after, "1"))
		c.bound(after)
		for _, f := range c.notes.factsOf("gated") {
			if q, ok := f.(journal.Queued); !ok || q.Queue != "gated" || q.By != "SchedulingGates" {
				t.Errorf("journal of the Pod with %d gates: %T %v, want it gated by SchedulingGates", gates, f, f)
			}
		}
	}
	stillGated(2)
	keepOnly(v1.PodSchedulingGate{Name: "example.com/h"})
	stillGated(1)
	keepOnly()
	c.bound("gated")
}

// Upstream's words and the API server's, none of ours.
//
// row: SCH-09
func TestRefusedBindingHasTheServersMessage(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"conflict": apierrors.NewConflict(v1.Resource("pods/binding"),
			"conflict", errors.New("pod conflict is already assigned to node \"n2\"")),
		"forbidden": apierrors.NewForbidden(v1.Resource("pods"), "forbidden", errors.New("nobody binds this")),
	} {
		c := start(t, nil, aNode("n1", "1"))
		c.mu.Lock()
		c.failBind = slices.Repeat([]error{err}, 100)
		c.mu.Unlock()
		c.create(aPod(name, "1"))
		want := `running Bind plugin "DefaultBinder": ` + err.Error()
		if got := scheduled(
			c.await(name, "refused", func(p *v1.Pod) bool { return scheduled(p) != nil })); got.Reason !=
			v1.PodReasonSchedulerError || got.Message != want {
			t.Errorf("%s: %s: %s\nwant %s", name, got.Reason, got.Message, want)
		}
		c.event(name, "FailedScheduling", want)
	}
}

// row: SCH-13, SCH-09
func TestRefusedBindingIsRolledBackAndTriedAgain(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "1"))
	c.failBind = []error{errors.New("the binding is refused")}
	c.create(aPod("web", "1")) // the node has room for one: the retry fits only if the first claim was taken back
	c.bound("web")
	c.event("web", "FailedScheduling", `running Bind plugin "DefaultBinder": the binding is refused`)
	failed, backoff := false, false
	for _, f := range c.notes.factsOf("web") {
		b, ok := f.(journal.BindFailed)
		failed = failed || ok && b.Point == "Bind" && b.Node == "n1"
		q, ok := f.(journal.Queued)
		backoff = backoff || ok && failed && q.Queue == "backoff"
	}
	if !failed || !backoff {
		t.Errorf("BindFailed %v, then in the queue backoff %v, want both: %v", failed, backoff, c.notes.factsOf("web"))
	}
}

// row: BND-10, BND-11, BND-12, BND-14, BND-15
func TestPreemptionTakesTheLeastImportant(t *testing.T) {
	t.Parallel()
	on := func(node string, priority int32) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.NodeName, p.Spec.Priority = node, &priority }
	}
	runs := func(p *v1.Pod) { // as a Pod that a kubelet has reported
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue},
			{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	c := start(t, nil, aNode("n1", "2"), aNode("n2", "2"), aPod("low1", "2", on("n1", 5), runs),
		aPod("low2", "2", on("n2", 3), runs))
	c.create(aPod("high", "1", func(p *v1.Pod) { p.Spec.Priority = new(int32(10)) }))
	if got := c.bound("high"); got != "n2" {
		t.Errorf("bound to %s, want n2, whose Pod has the lower priority", got)
	}
	c.event("high", "FailedScheduling",
		"0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node n2, "+
			"preempting 1 victims")
	c.event("low2", "Preempted", "Preempted by pod uid-high on node n2")
	if _, err := c.CoreV1().Pods("default").Get(t.Context(), "low1", metav1.GetOptions{}); err != nil {
		t.Errorf("low1 should have been left alone: %v", err)
	}
	if got, want := c.disruptionOf("low2"), "DisruptionTarget=True PreemptionByScheduler, then deleted"; got != want {
		t.Errorf("the victim low2: got %q, want %q", got, want)
	}
	if got := fmt.Sprint(c.notes.factsOf("high")); !strings.Contains(got, "{n2 [default/low2]}") {
		t.Errorf("no Preempting in %s", got)
	}
}

// disruptionOf tells, in their order, which conditions were written into a Pod's status and that it
// was deleted.
func (c *cluster) disruptionOf(name string) string {
	var out []string
	for _, a := range c.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok && p.GetName() == name && a.GetSubresource() == "status" {
			var is v1.Pod
			if err := json.Unmarshal(p.GetPatch(), &is); err != nil {
				c.t.Fatal(err)
			}
			for _, cond := range is.Status.Conditions {
				out = append(out, fmt.Sprintf("%s=%s %s", cond.Type, cond.Status, cond.Reason))
			}
		}
		if d, ok := a.(clienttesting.DeleteAction); ok && d.GetName() == name {
			out = append(out, "deleted")
		}
	}
	return strings.Join(out, ", then ")
}

// row: BND-10
func TestPreemptionPolicyNever(t *testing.T) {
	t.Parallel()
	low := aPod("low", "2", func(p *v1.Pod) { p.Spec.NodeName = "n1" })
	c := start(t, nil, aNode("n1", "2"), low)
	never := v1.PreemptNever
	c.create(aPod("high", "1", func(p *v1.Pod) { p.Spec.Priority, p.Spec.PreemptionPolicy = new(int32(10)), &never }))
	c.refused("high", "0/1 nodes are available: 1 Insufficient cpu."+preemptionEnd+
		"not eligible due to preemptionPolicy=Never.")
}

// A Pod for which nobody could make way at its first try has others make way at a later one.
//
// row: BND-10
func TestALaterTryPreemptsToo(t *testing.T) {
	t.Parallel()
	on := func(node string, priority int32) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.NodeName, p.Spec.Priority = node, &priority }
	}
	c := start(t, nil, aNode("n1", "2"), aPod("top", "2", on("n1", 20)), aPod("low", "2", on("n2", 1)))
	c.create(aPod("high", "1", func(p *v1.Pod) { p.Spec.Priority = new(int32(10)) }))
	c.await("high", "refused", func(p *v1.Pod) bool { return scheduled(p) != nil })
	if _, err := c.CoreV1().Nodes().Create(t.Context(), aNode("n2", "2"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := c.bound("high"); got != "n2" {
		t.Errorf("got high on %s, want n2, whose Pod has the lower priority", got)
	}
	if got, want := c.disruptionOf("low"), "DisruptionTarget=True PreemptionByScheduler, then deleted"; got != want {
		t.Errorf("the victim low: got %q, want %q", got, want)
	}
}

// row: API-08, SCH-30
func TestPodWaitsForTheFirstNode(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.create(aPod("web", "1"))
	c.refused("web", "no nodes available to schedule pods")
	if _, err := c.CoreV1().Nodes().Create(t.Context(), aNode("n1", "4"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.bound("web")
}

// row: SCH-25
func TestPodsOfOtherSchedulersAreIgnored(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "4"))
	c.create(aPod("other", "1", func(p *v1.Pod) { p.Spec.SchedulerName = "someone-else" }))
	c.create(aPod("mine", "1"))
	c.bound("mine")
	if f := c.notes.factsOf("other"); len(f) != 0 {
		t.Errorf("journal of another scheduler's Pod: %v", f)
	}
}

// row: SCH-12
func TestManyPodsNeverOvercommitANode(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "2"), aNode("n2", "3"))
	for i := range 8 {
		c.create(aPod(fmt.Sprintf("p%d", i), "1"))
	}
	on := map[string]int{}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		list, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		clear(on)
		refused := 0
		for i := range list.Items {
			if n := list.Items[i].Spec.NodeName; n != "" {
				on[n]++
			} else if scheduled(&list.Items[i]) != nil {
				refused++
			}
		}
		if refused == 3 && on["n1"]+on["n2"] == 5 {
			break
		}
	}
	if on["n1"] != 2 || on["n2"] != 3 {
		t.Errorf("Pods by node: %v", on)
	}
}
