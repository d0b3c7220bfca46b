package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/expect"
)

func onNode(node string, priority int32) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeName, p.Spec.Priority = node, &priority }
}

func highPriority(p *v1.Pod) { p.Spec.Priority, p.Spec.PriorityClassName = new(int32(1000)), "urgent" }

// slowClient holds the deletion of one Pod until the test releases it.
type slowClient struct {
	kubernetes.Interface
	name    string
	proceed chan struct{}
}

type slowCore struct {
	corev1.CoreV1Interface
	c slowClient
}

type slowPods struct {
	corev1.PodInterface
	c slowClient
}

// IsWatchListSemanticsUnSupported makes informers list and watch, as the clientset in memory
// needs.
func (c slowClient) IsWatchListSemanticsUnSupported() bool { return true }

func (c slowClient) CoreV1() corev1.CoreV1Interface { return slowCore{c.Interface.CoreV1(), c} }

func (c slowCore) Pods(ns string) corev1.PodInterface {
	return slowPods{c.CoreV1Interface.Pods(ns), c.c}
}

func (p slowPods) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	if name == p.c.name {
		select {
		case <-p.c.proceed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return p.PodInterface.Delete(ctx, name, o)
}

// strictClient refuses bindings in another namespace than theirs, as an API server does; the
// clientset in memory takes them all.
type strictClient struct{ kubernetes.Interface }

type strictCore struct{ corev1.CoreV1Interface }

type strictPods struct {
	corev1.PodInterface
	namespace string
}

// IsWatchListSemanticsUnSupported makes informers list and watch, as the clientset in memory
// needs.
func (c strictClient) IsWatchListSemanticsUnSupported() bool { return true }

func (c strictClient) CoreV1() corev1.CoreV1Interface { return strictCore{c.Interface.CoreV1()} }

func (c strictCore) Pods(ns string) corev1.PodInterface {
	return strictPods{c.CoreV1Interface.Pods(ns), ns}
}

func (p strictPods) Bind(ctx context.Context, b *v1.Binding, o metav1.CreateOptions) error {
	if b.Namespace != p.namespace {
		return fmt.Errorf("a binding of namespace %s came to %s", b.Namespace, p.namespace)
	}
	return p.PodInterface.Bind(ctx, b, o)
}

// The victim's deletion hangs: other Pods are placed meanwhile, and the preemptor is not tried
// again before its victims are gone.
//
// row: BND-12, BND-15
func TestVictimsLeaveBesideTheCycles(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	r := metrics.NewKubeRegistry()
	c := start(t, func(o *Options) {
		o.Metrics, o.Client = r, slowClient{o.Client, "low2", goOn}
	}, aNode("n1", "2"), aNode("n2", "1"), aPod("low1", "1", onNode("n1", 1)),
		aPod("low2", "1", onNode("n1", 2), func(p *v1.Pod) { // an eviction that did not come
			p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionFalse,
				Reason: "EvictionByEvictionAPI"}}
		}))
	c.create(aPod("high", "2", highPriority))
	c.await("high", "nominated", func(p *v1.Pod) bool { return p.Status.NominatedNodeName == "n1" })
	c.create(aPod("other", "1", func(p *v1.Pod) { p.Spec.Priority = new(int32(5)) }))
	if got := c.bound("other"); got != "n2" {
		t.Errorf("other is on %s, want n2", got)
	}
	attempts := 0
	for _, f := range c.notes.factsOf("high") {
		if _, ok := f.(journal.Ruled); ok {
			attempts++
		}
	}
	if attempts != 1 {
		t.Errorf("%d attempts while the victims are leaving, want 1", attempts)
	}
	close(goOn)
	if got := c.bound("high"); got != "n1" {
		t.Errorf("high is on %s, want n1", got)
	}
	for _, victim := range []string{"low1", "low2"} {
		want := "DisruptionTarget=True PreemptionByScheduler, then deleted"
		if got := c.disruptionOf(victim); got != want {
			t.Errorf("the victim %s: got %q, want %q", victim, got, want)
		}
	}
	for _, k := range []string{"scheduler_preemption_goroutines_execution_total/success",
		"scheduler_preemption_goroutines_duration_seconds", "scheduler_preemption_victims",
		"scheduler_preemption_attempts_total"} { // counted after the last deletion, which lets the Pod be bound
		expect.EventuallyNoError(t, k, func() error {
			if got := gather(t, r)[k]; got != 1 {
				return fmt.Errorf("got %v, want 1", got)
			}
			return nil
		})
	}
}

// A victim leaves whichever namespace it is in, and a Pod of its name in the preemptor's stays.
//
// row: BND-12, BND-15
func TestAVictimOfAnotherNamespaceLeaves(t *testing.T) {
	t.Parallel()
	batch := func(p *v1.Pod) { p.Namespace, p.UID = "batch", "uid-batch" }
	c := start(t, nil, aNode("n1", "2"), aPod("low", "1", onNode("n1", 1), batch), aPod("low", "1", onNode("n1", 10)))
	c.create(aPod("high", "1", func(p *v1.Pod) { p.Spec.Priority = new(int32(5)) }))
	if got := c.bound("high"); got != "n1" {
		t.Errorf("high is on %s, want n1", got)
	}
	var got []string
	for _, a := range c.Actions() {
		_, deleted := a.(clienttesting.DeleteAction)
		patch, patched := a.(clienttesting.PatchAction)
		if deleted || patched && strings.Contains(string(patch.GetPatch()), "DisruptionTarget") {
			got = append(got, a.GetVerb()+" in "+a.GetNamespace())
		}
	}
	if want := "patch in batch, delete in batch"; strings.Join(got, ", ") != want {
		t.Errorf("the victim: got %s, want %s", strings.Join(got, ", "), want)
	}
}

// A victim that cannot be deleted: the preemptor is tried again and succeeds in the end.
//
// row: BND-12
func TestAPreemptionThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	clientset := fake.NewClientset(aNode("n1", "1"), aPod("low", "1", onNode("n1", 1)))
	refusals := make(chan struct{}, 2)
	refusals <- struct{}{}
	refusals <- struct{}{}
	clientset.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		select {
		case <-refusals:
			return true, nil, fmt.Errorf("the server is not well")
		default:
			return false, nil, nil
		}
	})
	c := runOn(t, t.Context(), clientset, nil)
	c.create(aPod("high", "1", highPriority))
	c.bound("high")
	c.awaitFact("low", "preempted", func(f journal.Fact) bool { // said after the deletion, which lets high be bound
		_, ok := f.(journal.Preempted)
		return ok
	})
	preempted := 0
	for _, f := range c.notes.factsOf("low") {
		if _, ok := f.(journal.Preempted); ok {
			preempted++
		}
	}
	if preempted != 1 {
		t.Errorf("the victim's journal says %d times that it was preempted, want once", preempted)
	}
}

// row: BND-10, BND-11
func TestVictimsJournalNamesThePreemptor(t *testing.T) {
	t.Parallel()
	budget := &policy.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default"},
		Spec: policy.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
	labelled := func(p *v1.Pod) { p.Labels = map[string]string{"app": "db"} }
	c := start(t, nil, aNode("n1", "4"), budget, aPod("db-0", "3", onNode("n1", 0), labelled))
	c.create(aPod("urgent", "2", highPriority))
	c.bound("urgent")
	var f journal.Preempted
	for end := time.Now().Add(patience); f.By == "" && time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, n := range c.notes.factsOf("db-0") {
			if p, ok := n.(journal.Preempted); ok {
				f = p
			}
		}
	}
	want := "{default/urgent urgent 1000 0 n1 1 1 [{cpu 2000 3000 4000}] [{db 0}]}"
	if got := fmt.Sprint(f); got != want {
		t.Errorf("the victim's journal says %s, want %s", got, want)
	}
	if line := f.Line(); !strings.Contains(line, "against budget db (0 disruptions allowed)") {
		t.Errorf(`got %v, want line with "against budget db (0 disruptions allowed)"`, line)
	}
}

// No Pod of equal priority is a victim, beside others that are too few to make room.
//
// row: BND-11
func TestPodsOfEqualPriorityStay(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "3"), aPod("equal", "2", onNode("n1", 1000)), aPod("lower", "1", onNode("n1", 1)))
	c.create(aPod("high", "2", highPriority))
	c.refused("high", "0/1 nodes are available: 1 Insufficient cpu."+preemptionEnd+
		"0/1 nodes are available: 1 Insufficient cpu.")
	for _, a := range c.Actions() {
		if d, ok := a.(clienttesting.DeleteAction); ok {
			t.Errorf("%s is deleted, want nobody deleted", d.GetName())
		}
	}
}

// A Pod of lower priority that was nominated to the node loses its nomination.
func TestNominationGoesToHigherPriority(t *testing.T) {
	t.Parallel()
	slow := func(p *v1.Pod) { p.Finalizers = []string{"test/stays"} }
	c := start(t, nil, aNode("n1", "1"), aPod("low", "1", onNode("n1", 1), slow))
	// asked to go, and still there
	c.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, nil
	})
	c.create(aPod("middle", "1", func(p *v1.Pod) { p.Spec.Priority = new(int32(5)) }))
	c.await("middle", "nominated", func(p *v1.Pod) bool { return p.Status.NominatedNodeName == "n1" })
	c.create(aPod("high", "1", highPriority))
	c.await("high", "nominated", func(p *v1.Pod) bool { return p.Status.NominatedNodeName == "n1" })
	c.await("middle", "without nomination", func(p *v1.Pod) bool { return p.Status.NominatedNodeName == "" })
}

// A victim with two seconds to end: the preemptor is bound when it is gone, and not before.
//
// row: BND-13
func TestAPreemptorWaitsForAGracefulEnd(t *testing.T) {
	t.Parallel()
	const grace = 2 * time.Second
	c := start(t, nil, aNode("n1", "1"), aPod("low", "1", onNode("n1", 1)))
	gone := make(chan time.Time, 1)
	pods := v1.SchemeGroupVersion.WithResource("pods")
	// as a kubelet ends it
	c.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := a.(clienttesting.DeleteAction).GetName()
		obj, err := c.Tracker().Get(pods, "default", name)
		if err != nil {
			return true, nil, err
		}
		leaving := obj.(*v1.Pod).DeepCopy()
		leaving.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(grace)}
		time.AfterFunc(grace, func() {
			gone <- time.Now()
			if err := c.Tracker().Delete(pods, "default", name); err != nil {
				t.Error(err)
			}
		})
		return true, nil, c.Tracker().Update(pods, leaving, "default")
	})
	asked := time.Now()
	c.create(aPod("high", "1", highPriority))
	at := c.boundAt("high")
	if end := <-gone; at.Before(end) {
		t.Errorf("bound %v before its victim was gone", end.Sub(at))
	}
	if took := at.Sub(asked); took < grace || took > grace+30*time.Second {
		t.Errorf("bound after %v, want about %v", took, grace)
	}
}

// A victim that is terminating already is not deleted again, beside others and alone; the preemptor
// is bound when all are gone.
//
// row: BND-13
func TestATerminatingVictimIsNotDeletedAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		pods []runtime.Object
		want []string
	}{
		{"beside another", []runtime.Object{aPod("ending", "1", onNode("n1", 1), ending),
			aPod("low", "1", onNode("n1", 1))}, []string{"low"}},
		{"alone", []runtime.Object{aPod("ending", "2", onNode("n1", 1), ending)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, nil, append(test.pods, aNode("n1", "2"))...)
			var mu sync.Mutex
			var deleted []string
			c.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				mu.Lock()
				defer mu.Unlock()
				deleted = append(deleted, a.(clienttesting.DeleteAction).GetName())
				return false, nil, nil
			})
			c.create(aPod("high", "2", highPriority))
			c.await("high", "nominated", func(p *v1.Pod) bool { return p.Status.NominatedNodeName == "n1" })
			if err := c.Tracker().Delete(v1.SchemeGroupVersion.WithResource("pods"), "default", "ending"); err != nil {
				t.Fatal(err)
			}
			c.boundAt("high")
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(deleted, test.want) {
				t.Errorf("got %v deleted, want %v", deleted, test.want)
			}
		})
	}
}

// ending marks a Pod as deleted, with a minute to end.
func ending(p *v1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(time.Minute)}, new(int64(60))
}
