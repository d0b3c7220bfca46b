package testcluster_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/wrappers"
	"github.com/gantry-project/gantry/testcluster"
)

func pod(name, image string) *corev1.Pod {
	return wrappers.MakePod().Name(name).TerminationGracePeriodSeconds(1).Container("app", image).Obj()
}

func create(t *testing.T, c *testcluster.Cluster, p *corev1.Pod) {
	t.Helper()
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// within is a context for a whole test, which outlasts each of its waits.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*expect.Patience(d/2))
	t.Cleanup(cancel)
	return ctx
}

func phase(p corev1.PodPhase) func(*corev1.Pod) bool {
	return func(x *corev1.Pod) bool { return x != nil && x.Status.Phase == p }
}

func isDeleted(p *corev1.Pod) bool { return p == nil }

// row: RST-02, PST-04, PST-05
func TestPodsRunSucceedFailAndCrashAsScripted(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	c := testcluster.Start(t)
	t.Logf("up in %s", time.Since(begin))
	ctx := within(t, 3*time.Minute)
	c.On(testcluster.Match{Image: "works"}, testcluster.Script{Sh: "echo done; exit 0"})
	c.On(testcluster.Match{Image: "fails"}, testcluster.Script{Main: func(*testcluster.Process) int { return 3 }})

	create(t, c, pod("runs", "anything"))
	works, fails := pod("works", "works"), pod("fails", "fails")
	works.Spec.RestartPolicy, fails.Spec.RestartPolicy = corev1.RestartPolicyNever, corev1.RestartPolicyNever
	create(t, c, works)
	create(t, c, fails)
	create(t, c, pod("crashes", "fails"))

	if p := c.WaitPod(ctx, "default", "runs", phase(corev1.PodRunning)); p.Spec.NodeName != "node-1" ||
		p.Status.PodIP == "" {
		t.Errorf("running on %q with address %q", p.Spec.NodeName, p.Status.PodIP)
	}
	c.WaitPod(ctx, "default", "works", phase(corev1.PodSucceeded))
	if p := c.WaitPod(ctx, "default",
		"fails", phase(corev1.PodFailed)); p.Status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
		t.Errorf("status %+v", p.Status.ContainerStatuses[0].State)
	}
	c.WaitPod(ctx, "default", "crashes", func(p *corev1.Pod) bool {
		return p != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	if err := c.Client.CoreV1().Pods("default").Delete(ctx, "runs", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.WaitPod(ctx, "default", "runs", isDeleted)
	for _, fact := range []string{"journal.Written", "journal.Queued", "journal.Ruled", "journal.Bound",
		"journal.Accepted", "journal.ContainerStarted", "journal.ContainerExited", "journal.Released",
		"journal.Removed"} { // the kubelet writes the last after the object has gone
		expect.Eventually(t, "the journal has "+fact, func() bool {
			return slices.ContainsFunc(c.Journal("default", "runs"), func(e journal.Entry) bool {
				return fmt.Sprintf("%T", e.Fact) == fact
			})
		})
	}
}

// row: CTL-01
func TestDeploymentHealsAndIsCollected(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, testcluster.WithNodes("a", "b"))
	ctx := within(t, 3*time.Minute)
	for _, node := range []string{"a", "b"} { // the scheduler knows both
		p := pod("on-"+node, "anything")
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
		create(t, c, p)
		c.WaitPod(ctx, "default", p.Name, bound)
	}
	three := int32(3)
	labels := map[string]string{"app": "web"}
	apps := c.Client.AppsV1().Deployments("default")
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("", "web").Spec}
	if _, err := apps.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &three, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: template}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	available := func(n int32) {
		t.Helper()
		for {
			d, err := apps.Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if d.Status.AvailableReplicas == n && d.Status.Replicas == n &&
				d.Status.ObservedGeneration == d.Generation {
				return
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("status %+v\n%s", d.Status, c.Dump())
			}
		}
	}
	available(3)
	list, err := c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(list.Items) != 3 {
		t.Fatalf("%d Pods: %v, want no error, 3", len(list.Items), err)
	}
	nodes := map[string]int{}
	for _, p := range list.Items {
		nodes[p.Spec.NodeName]++
	}
	if len(nodes) != 2 {
		t.Errorf("all on one node: %v, want 2 of them", nodes)
	}
	victim := list.Items[0].Name
	if err := c.Client.CoreV1().Pods("default").Delete(ctx, victim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.WaitPod(ctx, "default", victim, isDeleted)
	available(3)
	if err := apps.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		left, err := c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			t.Fatal(err)
		}
		if len(left.Items) == 0 {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%d Pods outlive their Deployment", len(left.Items))
		}
	}
}

func TestRuntimeFaultsAreSurvived(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	c.Fault("node-1", "RunPodSandbox", "1*error(no space left)->ok")
	create(t, c, pod("late", "anything"))
	c.WaitPod(within(t, 3*time.Minute), "default", "late", phase(corev1.PodRunning))
	failed := false
	for _, e := range c.Journal("default", "late") {
		failed = failed || strings.Contains(e.Fact.Line(), "no space left")
	}
	if !failed {
		t.Error("the journal does not tell of the failed call")
	}
}

// row: API-08, FIL-23
func TestWithoutNodesAPodWaitsAndSaysSo(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, testcluster.WithNodes())
	create(t, c, pod("waits", "anything"))
	p := c.WaitPod(within(t, time.Minute), "default",
		"waits", func(p *corev1.Pod) bool { return p != nil && len(p.Status.Conditions) > 0 })
	if got := p.Status.Conditions[0]; got.Type != corev1.PodScheduled || got.Status != corev1.ConditionFalse ||
		got.Reason != "Unschedulable" || got.Message != "no nodes available to schedule pods" {
		t.Errorf(`got %+v, want PodScheduled False, Unschedulable, "no nodes available to schedule pods"`, got)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		testcluster.Start(b)
	}
}

// CBOR is behind a gate that is off, as in v1.37.
func TestCBORIsOffByDefault(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		method, path, header, value, body string
		code                              int
	}{
		{"GET", "/api/v1/pods", "Accept", runtime.ContentTypeCBOR, "", http.StatusNotAcceptable},
		{"PATCH", "/api/v1/namespaces/default/configmaps/x?fieldManager=x", "Content-Type",
			string(types.ApplyCBORPatchType), "\xd9\xd9\xf7\xa0", http.StatusUnsupportedMediaType},
	} {
		r, err := http.NewRequestWithContext(t.Context(), q.method, c.Config.Host+q.path, strings.NewReader(q.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(q.header, q.value)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != q.code {
			t.Errorf("%s %s: %d, want %d", q.method, q.value, answer.StatusCode, q.code)
		}
	}
}

func TestNetworkProbesReachTheScripts(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	c.On(testcluster.Match{Image: "web"}, testcluster.Script{Sh: "httpd 8080 200 fine & httpd 8081 500 sick & wait"})
	well, sick := pod("well", "web"), pod("sick", "web")
	for port, p := range map[int]*corev1.Pod{8080: well, 8081: sick} {
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1,
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt(port)}}}
		create(t, c, p)
	}
	ready := func(p *corev1.Pod) bool {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodReady {
				return cond.Status == corev1.ConditionTrue
			}
		}
		return false
	}
	ctx := within(t, 3*time.Minute)
	c.WaitPod(ctx, "default", "well", func(p *corev1.Pod) bool { return p != nil && ready(p) })
	if p := c.WaitPod(ctx, "default", "sick", phase(corev1.PodRunning)); ready(p) {
		t.Error("a Pod whose probe is answered with 500 is ready")
	}
	expect.Eventually(t, "the journal tells what the probe got", func() bool {
		return slices.ContainsFunc(c.Journal("default", "sick"),
			func(e journal.Entry) bool { return strings.Contains(e.Fact.Line(), "statuscode: 500") })
	})
}
