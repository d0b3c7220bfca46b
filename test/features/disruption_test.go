package features_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubectl/pkg/drain"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

func (w *fixture) evict(name string) error {
	return w.Client.PolicyV1().Evictions("default").Evict(w.ctx,
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}})
}

func (w *fixture) budget(app string, least int32, policy *policyv1.UnhealthyPodEvictionPolicyType) {
	w.t.Helper()
	n := intstr.FromInt32(least)
	_, err := w.Client.PolicyV1().PodDisruptionBudgets("default").Create(w.ctx,
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			UnhealthyPodEvictionPolicy: policy,
		}}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
}

// allows waits until a budget allows so many disruptions with so many healthy Pods.
func (w *fixture) allows(app string, disruptions, healthy int32) {
	w.t.Helper()
	w.until("the budget of "+app, func() bool {
		b, err := w.Client.PolicyV1().PodDisruptionBudgets("default").Get(w.ctx, app, metav1.GetOptions{})
		expect.NoError(w.t, err)
		return b.Status.DisruptionsAllowed == disruptions && b.Status.CurrentHealthy == healthy
	})
}

// cordon lets no Pod come to a node, or lets them come again. The scheduler knows of a cordon when
// it returns: it sees nodes and Pods by watches of their own.
func (w *fixture) cordon(node string, on bool) {
	w.t.Helper()
	text := "false"
	if on {
		text = "true"
	}
	_, err := w.Client.CoreV1().Nodes().Patch(w.ctx, node, types.StrategicMergePatchType,
		[]byte(`{"spec":{"unschedulable":`+text+`}}`), metav1.PatchOptions{})
	expect.NoError(w.t, err)
	for known := !on; !known; {
		p := scriptPod("", "")
		p.GenerateName, p.Spec.NodeSelector = "kept-out-", map[string]string{v1.LabelHostname: node}
		name := w.create(p).Name
		p = w.wait(name, func(p *v1.Pod) bool {
			return p.Spec.NodeName != "" || condition(p, v1.PodScheduled).Reason == v1.PodReasonUnschedulable
		})
		known = p.Spec.NodeName == ""
		w.delete(name, metav1.DeleteOptions{GracePeriodSeconds: ptr(int64(0))})
	}
}

// drainNode is what `kubectl drain` does, by its own code; it gives up after a while. A selector
// spares other Pods.
func (w *fixture) drainNode(node string, patience time.Duration, selector ...string) (string, error) {
	w.t.Helper()
	n, err := w.Client.CoreV1().Nodes().Get(w.ctx, node, metav1.GetOptions{})
	expect.NoError(w.t, err)
	var said bytes.Buffer
	h := &drain.Helper{Ctx: w.ctx, Client: w.Client, GracePeriodSeconds: -1, Timeout: patience,
		EvictErrorRetryDelay: 20 * time.Millisecond, Force: true, PodSelector: strings.Join(selector, ","), Out: &said,
		ErrOut: &said}
	expect.NoError(w.t, drain.RunCordonOrUncordon(h, n, true))
	err = drain.RunNodeDrain(h, node)
	return said.String(), err
}

// Budgets and evictions on one node.
func TestDisruptions(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, x := range []struct {
		name string
		test func(*fixture)
	}{
		{"eviction is graceful", gracefully},            // row: PDB-03
		{"a rollout asks no budget", rolloutOverBudget}, // row: PDB-11
		{"unhealthy Pods", unhealthy},                   // row: PDB-12
	} {
		t.Run(x.name, func(t *testing.T) { x.test(w.forSubtest(t)) })
	}
}

func gracefully(w *fixture) {
	asked, end := make(chan struct{}, 1), make(chan struct{})
	w.On(testcluster.Match{Pod: "slow-end"}, testcluster.Script{Main: func(p *testcluster.Process) int {
		<-p.Signal
		asked <- struct{}{}
		select {
		case <-end:
			return 0
		case <-p.Context.Done():
			return 137
		}
	}})
	p := scriptPod("slow-end", "")
	p.Spec.TerminationGracePeriodSeconds = ptr(int64(60))
	w.create(p)
	w.wait("slow-end", running)
	expect.NoError(w.t, w.evict("slow-end"))
	select {
	case <-asked:
	case <-w.ctx.Done():
		w.t.Fatal("TERM never came")
	}
	p = w.get("slow-end")
	if p.DeletionTimestamp == nil || *p.DeletionGracePeriodSeconds != 60 || !running(p) {
		w.t.Errorf("while it ends: deleted %v, %s", p.DeletionTimestamp, p.Status.Phase)
	}
	close(end)
	w.waitForDeletion("slow-end")
}

func rolloutOverBudget(w *fixture) {
	w.deploy("tight", 2)
	w.budget("tight", 2, nil)
	w.allows("tight", 0, 2)
	if err := w.evict(w.live("app=tight")[0].Name); !apierrors.IsTooManyRequests(err) {
		w.t.Errorf("an eviction where none is allowed: %v", err)
	}
	old := w.live("app=tight")
	w.paint("tight", "blue")
	w.rolled("tight", 2)
	for _, p := range w.live("app=tight") {
		if slices.ContainsFunc(old, func(o v1.Pod) bool { return o.UID == p.UID }) {
			w.t.Errorf("%s was not replaced", p.Name)
		}
	}
	w.allows("tight", 0, 2)
}

func unhealthy(w *fixture) {
	for app, policy := range map[string]*policyv1.UnhealthyPodEvictionPolicyType{"default": nil,
		"always": ptr(policyv1.AlwaysAllow)} {
		p := scriptPod("sick-"+app, "")
		p.Labels = map[string]string{"app": app}
		p.Spec.Containers[0].ReadinessProbe = &v1.Probe{
			ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "exit 1"}}},
			PeriodSeconds: 1}
		w.create(p)
		w.wait(p.Name, running)
		w.budget(app, 1, policy)
		w.until("the budget's status", func() bool {
			b, err := w.Client.PolicyV1().PodDisruptionBudgets("default").Get(w.ctx, app, metav1.GetOptions{})
			return err == nil && b.Status.DesiredHealthy == 1
		})
		switch err := w.evict(p.Name); {
		case policy == nil && !apierrors.IsTooManyRequests(err):
			w.t.Errorf("an unready Pod of an app below its budget: %v", err)
		case policy != nil && err != nil:
			w.t.Errorf("AlwaysAllow: %v", err)
		}
	}
}

// Who ends a Pod says so, each with its own reason.
//
// row: PDB-13
func TestFiveReasonsOfDisruption(t *testing.T) {
	t.Parallel()
	w := start(t, testcluster.WithNodes("a", "b"), testcluster.WithNodeQuarantine(200*time.Millisecond))
	states := w.record()
	node, err := w.Client.CoreV1().Nodes().Get(w.ctx, "a", metav1.GetOptions{})
	expect.NoError(w.t, err)
	half := resource.NewMilliQuantity(node.Status.Allocatable.Cpu().MilliValue()*6/10, resource.DecimalSI)
	big := func(name, class string) *v1.Pod {
		p := scriptPod(name, "")
		p.Spec.PriorityClassName, p.Spec.NodeSelector = class, map[string]string{v1.LabelHostname: "a"}
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: *half}
		return p
	}
	w.create(big("preempted", ""))
	w.wait("preempted", running)
	w.create(big("urgent", "system-cluster-critical"))
	w.wait("urgent", running)
	expect.NoError(w.t, w.evict("urgent"))
	w.waitForDeletion("urgent")
	w.create(big("in-the-way", ""))
	w.wait("in-the-way", running)
	critical := big("critical", "system-node-critical")
	critical.Spec.NodeSelector, critical.Spec.NodeName = nil, "a"
	w.create(critical)
	w.wait("critical", running)
	for _, name := range []string{"tainted", "orphan"} {
		p := scriptPod(name, "")
		p.Spec.NodeName = "b"
		if name == "orphan" {
			p.Spec.Tolerations = []v1.Toleration{{Key: "a", Operator: v1.TolerationOpExists}}
		}
		w.create(p)
		w.wait(name, running)
	}
	_, err = w.Client.CoreV1().Nodes().Patch(w.ctx, "b", types.StrategicMergePatchType,
		[]byte(`{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`), metav1.PatchOptions{})
	expect.NoError(w.t, err)
	w.waitForDeletion("tainted")
	w.KillNode("b")
	expect.NoError(w.t, w.Client.CoreV1().Nodes().Delete(w.ctx, "b", metav1.DeleteOptions{}))
	w.waitForDeletion("orphan")
	got := map[string]string{}
	for _, p := range states() {
		if c := condition(p, v1.DisruptionTarget); c.Status == v1.ConditionTrue {
			got[p.Name] = c.Reason
		}
	}
	for name, want := range map[string]string{
		"preempted": "PreemptionByScheduler", "urgent": "EvictionByEvictionAPI", "in-the-way": "TerminationByKubelet",
		"tainted": "DeletionByTaintManager", "orphan": "DeletionByPodGC",
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %s", name, got[name], want)
		}
	}
}

// Pods that a lost node takes along are counted, though nobody asked the budget.
//
// row: PDB-10
func TestALostNodeCostsTheBudget(t *testing.T) {
	t.Parallel()
	w := start(t, testcluster.WithNodes("a", "b"), testcluster.WithNodeQuarantine(200*time.Millisecond))
	apart := func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule,
				LabelSelector: d.Spec.Selector}}
	}
	w.deploy("web", 2, apart)
	w.budget("web", 1, nil)
	w.allows("web", 1, 2)
	w.cordon("a", true) // nobody can come in the place of what is lost
	w.KillNode("b")
	expect.NoError(w.t, w.Client.CoreV1().Nodes().Delete(w.ctx, "b", metav1.DeleteOptions{}))
	w.allows("web", 0, 1)
	for _, p := range w.live("app=web") {
		if p.Spec.NodeName == "a" {
			if err := w.evict(p.Name); !apierrors.IsTooManyRequests(err) {
				t.Errorf("the last healthy Pod may go: %v", err)
			}
		}
	}
}

// The documents' example: three nodes that fit two Pods each, a budget of two of three, one node
// after the other is drained.
//
// row: PDB-04
// row: PDB-15
func TestNodesAreDrainedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := start(t, testcluster.WithNodes("node-1", "node-2", "node-3"))
	w.On(testcluster.Match{Image: "app:1"},
		testcluster.Script{Sh: "echo yes > /ready; while true; do sleep 0.05; done"})
	node, err := w.Client.CoreV1().Nodes().Get(w.ctx, "node-1", metav1.GetOptions{})
	expect.NoError(w.t, err)
	// two fit a node
	size := resource.NewMilliQuantity(node.Status.Allocatable.Cpu().MilliValue()*4/10, resource.DecimalSI)
	shape := func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: *size}
		c.ReadinessProbe = &v1.Probe{
			ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "test -f /ready"}}},
			PeriodSeconds: 1}
	}
	w.deploy("app", 3, shape, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway,
				LabelSelector: d.Spec.Selector}}
	})
	on := map[string]v1.Pod{}
	for _, p := range w.live("app=app") {
		on[p.Spec.NodeName] = p
	}
	a, b, c := on["node-1"], on["node-2"], on["node-3"]
	if len(on) != 3 {
		t.Fatalf("on %d nodes", len(on))
	}
	w.cordon("node-3", true)
	w.deploy("x", 1, shape, func(d *appsv1.Deployment) { // on node-1, and later on node-3
		d.Spec.Template.Spec.Affinity = &v1.Affinity{
			NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{
					{MatchExpressions: []v1.NodeSelectorRequirement{
						{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{"node-1", "node-3"}}}},
				}}}}
	})
	x := w.live("app=x")[0]
	w.budget("app", 2, nil)
	w.allows("app", 1, 3)
	// what starts from now on is not available until its status is set
	w.On(testcluster.Match{Image: "app:1"}, testcluster.Script{Sh: "while true; do sleep 0.05; done"})
	if said, err := w.drainNode("node-1", time.Minute); err != nil || x.Spec.NodeName != "node-1" {
		t.Fatalf("pod-x on %s; node-1: %v\n%s", x.Spec.NodeName, err, said)
	}
	w.waitForDeletion(a.Name)
	w.waitForDeletion(x.Name)
	d := w.newPod("app", a, b, c)
	w.wait(d.Name, func(p *v1.Pod) bool { return running(p) && p.Spec.NodeName == "node-2" })
	w.cordon("node-3", false)
	y := w.newPod("x", x)
	w.wait(y.Name, func(p *v1.Pod) bool { return running(p) && p.Spec.NodeName == "node-3" })
	w.allows("app", 0, 2)
	if said, err := w.drainNode("node-3", 300*time.Millisecond, "app=app"); err == nil ||
		w.get(c.Name).DeletionTimestamp != nil {
		t.Fatalf("node-3 while pod-d is not available: %v\n%s", err, said)
	}
	w.cordon("node-3", false)
	w.exec(w.get(d.Name), "sh", "-c", "echo yes > /ready")
	w.allows("app", 1, 3)
	if said, err := w.drainNode("node-2", 3*time.Second); err == nil {
		t.Fatalf("two Pods of node-2 where one may go\n%s", said)
	}
	e := w.newPod("app", a, b, c, d)
	w.wait(e.Name, func(p *v1.Pod) bool { return condition(p, v1.PodScheduled).Reason == v1.PodReasonUnschedulable })
	w.allows("app", 0, 2)
	w.cordon("node-1", false) // room comes
	w.wait(e.Name, func(p *v1.Pod) bool { return running(p) && p.Spec.NodeName == "node-1" })
	w.exec(w.get(e.Name), "sh", "-c", "echo yes > /ready")
	if said, err := w.drainNode("node-2", time.Minute); err != nil {
		t.Fatalf("node-2 at last: %v\n%s", err, said)
	}
	for _, p := range []v1.Pod{b, d} {
		w.waitForDeletion(p.Name)
	}
}

// newPod waits for a live Pod of the app that is none of these.
func (w *fixture) newPod(app string, not ...v1.Pod) (found v1.Pod) {
	w.t.Helper()
	w.until("a new Pod of "+app, func() bool {
		for _, p := range w.live("app=" + app) {
			if !slices.ContainsFunc(not, func(q v1.Pod) bool { return q.UID == p.UID }) {
				found = p
				return true
			}
		}
		return false
	})
	return found
}
