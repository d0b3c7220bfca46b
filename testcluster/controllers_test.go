package testcluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// eventually polls until ok returns true; what describes it. It fails the test after a minute: what
// it waits for takes a second at most on an idle machine.
func eventually(t *testing.T, c *testcluster.Cluster, what string, ok func() bool) {
	t.Helper()
	expect.EventuallyNoError(t, what, func() error {
		if ok() {
			return nil
		}
		return expect.Lazy(c.Dump)
	})
}

func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: pod("", "web").Spec}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// Five replicas of which four must stay: one voluntary disruption at a time, however many are
// requested; deletion ignores the budget.
//
// row: PDB-05
// row: PDB-06
// row: PDB-08
func TestABudgetLetsOnePodGoAtATime(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	ctx := within(t, 3*time.Minute)
	api := c.Client
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(5)), Selector: selector("web"), Template: template("web")}}
	four := intstr.FromInt32(4)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &four, Selector: selector("web")}}
	if _, err := api.AppsV1().Deployments("default").Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, c, pod("other", "web"))
	if _, err := api.PolicyV1().PodDisruptionBudgets("default").Create(ctx, budget, metav1.CreateOptions{}); err !=
		nil {
		t.Fatal(err)
	}
	allows := func(n int32) func() bool {
		return func() bool {
			b, err := api.PolicyV1().PodDisruptionBudgets("default").Get(ctx, "web", metav1.GetOptions{})
			return err == nil && b.Status.DisruptionsAllowed == n && b.Status.ExpectedPods == 5 &&
				b.Status.CurrentHealthy == 4+n
		}
	}
	eventually(t, c, "one disruption allowed of five Pods", allows(1))
	running := func() []corev1.Pod {
		list, err := api.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			t.Fatal(err)
		}
		var out []corev1.Pod
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil && phase(corev1.PodRunning)(&p) {
				out = append(out, p)
			}
		}
		return out
	}
	evict := func(name string) error {
		return api.PolicyV1().Evictions("default").Evict(ctx,
			&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}})
	}
	pods := running()
	c.Fault("node-1", "RunPodSandbox", "error(not yet)") // no Pod takes the place of the first
	if err := evict(pods[0].Name); err != nil {
		t.Fatal(err)
	}
	if err := evict(pods[1].Name); !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err,
		policyv1.DisruptionBudgetCause) {
		t.Fatalf("the second eviction is answered with %v", err)
	}
	c.Fault("node-1", "RunPodSandbox", "")
	eventually(t, c, "the budget is met again by the Pod that replaces it", allows(1))
	if err := evict(pods[1].Name); err != nil {
		t.Fatalf("a later try: %v", err)
	}
	for _, p := range pods[2:4] {
		if err := api.CoreV1().Pods("default").Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("a plain delete is held back: %v", err)
		}
	}
	eventually(t, c, "all are back", allows(1))
	if err := api.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "app=web"}); err != nil {
		t.Errorf("a delete of all Pods at once is held back: %v", err)
	}
	eventually(t, c, "all are back once more", allows(1))
	if err := api.AppsV1().Deployments("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "the Deployment's Pods go, four of them against the budget", func() bool {
		list, err := api.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		return err == nil && len(list.Items) == 0
	})
}

// row: CTL-06
// row: CTL-07
// row: CTL-12
func TestStatefulSetsDaemonsAndQuotas(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, testcluster.WithNodes("a", "b"))
	ctx := within(t, 3*time.Minute)
	api := c.Client
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("6"),
			"count/daemonsets.apps": resource.MustParse("4")}}}
	if _, err := api.CoreV1().ResourceQuotas("default").Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var counted string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("counted last: %s", counted)
		}
	})
	used := func(n string) func() bool {
		return func() bool {
			q, err := api.CoreV1().ResourceQuotas("default").Get(ctx, "q", metav1.GetOptions{})
			if err != nil {
				return false
			}
			pods, sets := q.Status.Used["pods"], q.Status.Used["count/daemonsets.apps"]
			counted = fmt.Sprint(pods.String(), " ", sets.String())
			return counted == n
		}
	}
	eventually(t, c, "the quota is counted", used("0 0"))
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), ServiceName: "db", Selector: selector("db"),
			Template: template("db")}}
	if _, err := api.AppsV1().StatefulSets("default").Create(ctx, set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.DaemonSetSpec{Selector: selector("agent"), Template: template("agent")}}
	if _, err := api.AppsV1().DaemonSets("default").Create(ctx, daemons, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "a daemon on each node", func() bool {
		d, err := api.AppsV1().DaemonSets("default").Get(ctx, "agent", metav1.GetOptions{})
		return err == nil && d.Status.DesiredNumberScheduled == 2 && d.Status.NumberAvailable == 2 &&
			d.Status.UpdatedNumberScheduled == 2
	})
	first := c.WaitPod(ctx, "default", "db-0", phase(corev1.PodRunning))
	second := c.WaitPod(ctx, "default", "db-1", phase(corev1.PodRunning))
	if second.CreationTimestamp.Before(&first.CreationTimestamp) || first.Spec.Hostname != "db-0" {
		t.Errorf("order of creation %s %s, host name %q", first.CreationTimestamp, second.CreationTimestamp,
			first.Spec.Hostname)
	}
	eventually(t, c, "four Pods and one DaemonSet counted", used("4 1"))

	// The same name comes back, as another Pod, from the new template, the highest number first.
	patch := []byte(`{"spec":{"template":{"metadata":{"annotations":{"new":"yes"}}}}}`)
	if _, err := api.AppsV1().StatefulSets("default").Patch(ctx, "db", "application/strategic-merge-patch+json", patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	renewed := func(p *corev1.Pod) bool {
		return p != nil && p.Annotations["new"] == "yes" && phase(corev1.PodRunning)(p)
	}
	if p := c.WaitPod(ctx, "default", "db-0", renewed); p.UID == first.UID {
		t.Error("the Pod was changed in place")
	}
	if p, err := api.CoreV1().Pods("default").Get(ctx, "db-1", metav1.GetOptions{}); err != nil || !renewed(p) {
		t.Errorf("the lower number was replaced first: %+v %v", p, err)
	}

	// Two more fit the quota, the third does not, and its owner says so.
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "old"},
		Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(3)), Template: new(template("old"))}}
	if _, err := api.CoreV1().ReplicationControllers("default").Create(ctx, rc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	seen := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(seen)
		}
	})
	eventually(t, c, "the third Pod is refused by the quota", func() bool {
		r, err := api.CoreV1().ReplicationControllers("default").Get(ctx, "old", metav1.GetOptions{})
		q, _ := api.CoreV1().ResourceQuotas("default").Get(ctx, "q", metav1.GetOptions{})
		seen = fmt.Sprint("the controller's status: ", r.Status, ", the quota's: ", q.Status, ", ", err)
		return err == nil && len(r.Status.Conditions) == 1 && strings.Contains(r.Status.Conditions[0].Message,
			"exceeded quota: q, requested: pods=1, used: pods=6, limited: pods=6")
	})
	if err := api.AppsV1().DaemonSets("default").Delete(ctx, "agent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "what the daemons leave is used", used("5 0"))
}
