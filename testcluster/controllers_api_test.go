package testcluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/testcluster"
)

// monitorGrace is how long a node of TestControllersAtWork may be silent.
const monitorGrace = time.Second

// Controllers at work through the API. There is no kubelet: nodes and Pods report what the test
// says.
func TestControllersAtWork(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, testcluster.WithNodes(), testcluster.WithNodeMonitorGracePeriod(monitorGrace),
		testcluster.WithNodeQuarantine(time.Hour)) // Pods of nodes that are not there stay
	for _, x := range []struct {
		name string
		test func(*testing.T, *atWork)
	}{
		{"a CronJob starts Jobs", cronJobStartsJobs},                       // row: CTL-10, CTL-11, PDB-14
		{"a silent node is not ready", silentNode},                         // row: CTL-15, CTL-16, CTL-17, KSL-10
		{"a node out of service", outOfService},                            // row: CTL-21
		{"Endpoints follow readiness", endpointsFollow},                    // row: CTL-14
		{"budgets in numbers and percents, by owner", budgetsFollowOwners}, // row: PDB-07, PDB-09
		{"a ReplicaSet keeps its count", replicaSetKeepsCount},             // row: CTL-01
	} {
		t.Run(x.name, func(t *testing.T) { x.test(t, &atWork{t, c, within(t, 3*time.Minute)}) })
	}
}

// atWork is the cluster as one subtest uses it.
type atWork struct {
	*testing.T
	c   *testcluster.Cluster
	ctx context.Context
}

func (w *atWork) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *atWork) until(what string, ok func() bool) {
	w.Helper()
	eventually(w.T, w.c, what, ok)
}

func (w *atWork) get(pod string) *corev1.Pod {
	w.Helper()
	p, err := w.c.Client.CoreV1().Pods("default").Get(w.ctx, pod, metav1.GetOptions{})
	w.must(err)
	return p
}

// live are the Pods of a label that have not ended and are not ending.
func (w *atWork) live(selector string) (out []corev1.Pod) {
	w.Helper()
	list, err := w.c.Client.CoreV1().Pods("default").List(w.ctx, metav1.ListOptions{LabelSelector: selector})
	w.must(err)
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
			out = append(out, p)
		}
	}
	return out
}

// report writes a Pod's status as its kubelet would.
func (w *atWork) report(pod string, s corev1.PodStatus) {
	w.Helper()
	raw, err := json.Marshal(map[string]any{"status": s})
	w.must(err)
	_, err = w.c.Client.CoreV1().Pods("default").Patch(w.ctx, pod, types.StrategicMergePatchType, raw,
		metav1.PatchOptions{}, "status")
	w.must(err)
}

func readyIs(s corev1.ConditionStatus) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
		Status: s, LastTransitionTime: metav1.Now()}}}
}

// cronJobStartsJobs: the minute that has passed starts a Job, which is the CronJob's and has the
// template's failure policy: a disruption of its Pod is no failure, another end is.
func cronJobStartsJobs(_ *testing.T, w *atWork) {
	cronJobs, jobs := w.c.Client.BatchV1().CronJobs("default"), w.c.Client.BatchV1().Jobs("default")
	spec := template("").Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := cronJobs.Create(w.ctx, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "hello"},
		Spec: batchv1.CronJobSpec{Schedule: "* * * * *", ConcurrencyPolicy: batchv1.ForbidConcurrent,
			Suspend: new(true), // a minute that begins now starts nothing yet
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{BackoffLimit: new(int32(0)),
				Template: corev1.PodTemplateSpec{Spec: spec},
				PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
					Action: batchv1.PodFailurePolicyActionIgnore,
					OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
						{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}}}},
			}}}}, metav1.CreateOptions{})
	w.must(err)
	// It ran two minutes ago: the minute since then is due.
	_, err = cronJobs.Patch(w.ctx, "hello", types.MergePatchType, fmt.Appendf(nil,
		`{"status":{"lastScheduleTime":%q}}`, time.Now().UTC().Add(-2*time.Minute).Format(time.RFC3339)),
		metav1.PatchOptions{}, "status")
	w.must(err)
	_, err = cronJobs.Patch(w.ctx, "hello", types.MergePatchType, []byte(`{"spec":{"suspend":false}}`),
		metav1.PatchOptions{})
	w.must(err)
	var is *batchv1.CronJob
	w.until("a Job of the CronJob", func() bool {
		is, err = cronJobs.Get(w.ctx, "hello", metav1.GetOptions{})
		w.must(err)
		return len(is.Status.Active) == 1
	})
	job, err := jobs.Get(w.ctx, is.Status.Active[0].Name, metav1.GetOptions{})
	w.must(err)
	if want := fmt.Sprintf("hello-%d", is.Status.LastScheduleTime.Unix()/60); job.Name != want ||
		!metav1.IsControlledBy(job, is) || time.Since(is.Status.LastScheduleTime.Time) > 2*time.Minute {
		w.Errorf("got Job %s of %v for %s, want %s of the CronJob for the last minute", job.Name, job.OwnerReferences,
			is.Status.LastScheduleTime, want)
	}
	var first, second corev1.Pod
	w.until("a Pod of the Job", func() bool {
		if live := w.live("job-name=" + job.Name); len(live) == 1 {
			first = live[0]
		}
		return first.Name != ""
	})
	w.report(first.Name, corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}})
	w.until("another Pod of the Job after a disruption", func() bool {
		if live := w.live("job-name=" + job.Name); len(live) == 1 && live[0].UID != first.UID {
			second = live[0]
		}
		return second.Name != ""
	})
	w.report(second.Name, corev1.PodStatus{Phase: corev1.PodFailed})
	w.until("the Job's failure, and its leaving the active list", func() bool {
		is, err = cronJobs.Get(w.ctx, "hello", metav1.GetOptions{})
		w.must(err)
		return !slices.ContainsFunc(is.Status.Active, func(r corev1.ObjectReference) bool { return r.UID == job.UID })
	})
	if job, err = jobs.Get(w.ctx, job.Name, metav1.GetOptions{}); err != nil || job.Status.Failed != 1 ||
		!slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobFailed && c.Reason == batchv1.JobReasonBackoffLimitExceeded
		}) {
		w.Errorf("got %+v, %v, want one failure of two ends, BackoffLimitExceeded", job.Status, err)
	}
	w.must(cronJobs.Delete(w.ctx, "hello", metav1.DeleteOptions{}))
	w.until("the end of the CronJob's Jobs", func() bool {
		_, err := jobs.Get(w.ctx, job.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// endpointsFollow: the Endpoints object of a Service lists the addresses of ready Pods, and the
// others apart; it goes with its Service.
func endpointsFollow(_ *testing.T, w *atWork) {
	for i, name := range []string{"one", "two"} {
		p := pod(name, "web")
		p.Labels, p.Spec.NodeName = map[string]string{"app": "served"}, "elsewhere"
		create(w.T, w.c, p)
		s := readyIs(corev1.ConditionFalse)
		s.PodIP = fmt.Sprint("10.1.1.", i+1)
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
		w.report(name, s)
	}
	_, err := w.c.Client.CoreV1().Services("default").Create(w.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "served"}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "served"}, Ports: []corev1.ServicePort{{Port: 80}}}},
		metav1.CreateOptions{})
	w.must(err)
	endpoints := func(want string) {
		w.Helper()
		got := ""
		w.Cleanup(func() {
			if w.Failed() {
				w.Logf("got %s, want %s", got, want)
			}
		})
		w.until("Endpoints "+want, func() bool {
			e, err := w.c.Client.CoreV1().Endpoints("default").Get(w.ctx, "served", metav1.GetOptions{})
			if err != nil || len(e.Subsets) != 1 {
				got = fmt.Sprint(e.Subsets, err)
				return false
			}
			got = ""
			for _, a := range e.Subsets[0].Addresses {
				got += a.IP + " "
			}
			got += "|"
			for _, a := range e.Subsets[0].NotReadyAddresses {
				got += " " + a.IP
			}
			return got == want
		})
	}
	endpoints("| 10.1.1.1 10.1.1.2")
	w.report("one", readyIs(corev1.ConditionTrue))
	endpoints("10.1.1.1 | 10.1.1.2")
	w.report("two", readyIs(corev1.ConditionTrue))
	endpoints("10.1.1.1 10.1.1.2 |")
	w.must(w.c.Client.CoreV1().Services("default").Delete(w.ctx, "served", metav1.DeleteOptions{}))
	w.until("the end of the Service's Endpoints", func() bool {
		_, err := w.c.Client.CoreV1().Endpoints("default").Get(w.ctx, "served", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// budgetsFollowOwners: what a budget expects follows the scale of the Pods' owner, in numbers and
// in percents, which are rounded up.
func budgetsFollowOwners(_ *testing.T, w *atWork) {
	sets, budgets := w.c.Client.AppsV1().ReplicaSets("default"), w.c.Client.PolicyV1().PodDisruptionBudgets("default")
	_, err := sets.Create(w.ctx, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "owner"},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: selector("owner"), Template: template("owner")}},
		metav1.CreateOptions{})
	w.must(err)
	w.until("three Pods", func() bool { return len(w.live("app=owner")) == 3 })
	for _, p := range w.live("app=owner") {
		w.report(p.Name, readyIs(corev1.ConditionTrue))
	}
	_, err = budgets.Create(w.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "owner"},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: selector("owner")}},
		metav1.CreateOptions{})
	w.must(err)
	status := func(want string) {
		w.Helper()
		got := ""
		w.Cleanup(func() {
			if w.Failed() {
				w.Logf("got %s, want %s", got, want)
			}
		})
		w.until("the budget's status "+want, func() bool {
			b, err := budgets.Get(w.ctx, "owner", metav1.GetOptions{})
			w.must(err)
			s := b.Status
			got = fmt.Sprintf("expects %d, wants %d healthy, has %d, allows %d", s.ExpectedPods, s.DesiredHealthy,
				s.CurrentHealthy, s.DisruptionsAllowed)
			return got == want
		})
	}
	change := func(spec string) {
		w.Helper()
		_, err := budgets.Patch(w.ctx, "owner", types.MergePatchType, []byte(`{"spec":`+spec+`}`),
			metav1.PatchOptions{})
		w.must(err)
	}
	status("expects 3, wants 2 healthy, has 3, allows 1")
	_, err = sets.Patch(w.ctx, "owner", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{})
	w.must(err)
	status("expects 5, wants 4 healthy, has 3, allows 0")
	change(`{"maxUnavailable":"50%"}`)
	status("expects 5, wants 2 healthy, has 3, allows 1")
	change(`{"maxUnavailable":null,"minAvailable":"41%"}`)
	status("expects 5, wants 3 healthy, has 3, allows 0")
	change(`{"minAvailable":2}`)
	status("expects 5, wants 2 healthy, has 3, allows 1")
	w.must(sets.Delete(w.ctx, "owner", metav1.DeleteOptions{}))
}

// replicaSetKeepsCount: a Pod that failed or was deleted is replaced by another, those that live
// are kept, and what is too many goes.
func replicaSetKeepsCount(_ *testing.T, w *atWork) {
	sets := w.c.Client.AppsV1().ReplicaSets("default")
	_, err := sets.Create(w.ctx, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "count"},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: selector("count"), Template: template("count")}},
		metav1.CreateOptions{})
	w.must(err)
	w.until("three Pods", func() bool { return len(w.live("app=count")) == 3 })
	pods := w.live("app=count")
	w.report(pods[0].Name, corev1.PodStatus{Phase: corev1.PodFailed})
	w.must(w.c.Client.CoreV1().Pods("default").Delete(w.ctx, pods[1].Name, metav1.DeleteOptions{}))
	var now []corev1.Pod
	w.until("three live Pods after one failed and one was deleted", func() bool {
		now = w.live("app=count")
		return len(now) == 3 && !slices.ContainsFunc(now, func(p corev1.Pod) bool { return p.UID == pods[1].UID })
	})
	if !slices.ContainsFunc(now, func(p corev1.Pod) bool { return p.UID == pods[2].UID }) {
		w.Errorf("%s was replaced, though it lives", pods[2].Name)
	}
	_, err = sets.Patch(w.ctx, "count", types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
	w.must(err)
	w.until("one Pod of a set of one", func() bool { return len(w.live("app=count")) == 1 })
}
