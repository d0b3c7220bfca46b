package features_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

func labelled(key, value string, spec v1.PodSpec) v1.PodTemplateSpec {
	return v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{key: value}}, Spec: spec}
}

func (w *fixture) pods(selector string) []v1.Pod {
	w.t.Helper()
	list, err := w.Client.CoreV1().Pods("default").List(w.ctx, metav1.ListOptions{LabelSelector: selector})
	expect.NoError(w.t, err)
	return list.Items
}

// live are the Pods that have not ended and are not ending.
func (w *fixture) live(selector string) (out []v1.Pod) {
	w.t.Helper()
	for _, p := range w.pods(selector) {
		if p.DeletionTimestamp == nil && p.Status.Phase != v1.PodFailed && p.Status.Phase != v1.PodSucceeded {
			out = append(out, p)
		}
	}
	return out
}

func (w *fixture) deploy(name string, replicas int32, edit ...func(*appsv1.Deployment)) *appsv1.Deployment {
	w.t.Helper()
	spec := scriptPod("", "").Spec
	spec.Containers[0].Env = []v1.EnvVar{{Name: "COLOUR", Value: "red"}}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: labelled("app", name, spec),
	}}
	for _, e := range edit {
		e(d)
	}
	d, err := w.Client.AppsV1().Deployments("default").Create(w.ctx, d, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	w.rolled(name, replicas)
	return d
}

// rolled waits until all replicas are of the newest template and available.
func (w *fixture) rolled(name string, replicas int32) {
	w.t.Helper()
	w.until("the rollout of "+name, func() bool {
		d, err := w.Client.AppsV1().Deployments("default").Get(w.ctx, name, metav1.GetOptions{})
		expect.NoError(w.t, err)
		s := d.Status
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == replicas &&
			s.AvailableReplicas == replicas && s.Replicas == replicas
	})
}

func (w *fixture) paint(name, colour string) {
	w.t.Helper()
	_, err := w.Client.AppsV1().Deployments("default").Patch(w.ctx, name, types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"app","env":[{"name":"COLOUR","value":"`+colour+
			`"}]}]}}}}`), metav1.PatchOptions{})
	expect.NoError(w.t, err)
}

func (w *fixture) job(name string, spec batchv1.JobSpec) {
	w.t.Helper()
	_, err := w.Client.BatchV1().Jobs("default").Create(w.ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: spec}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
}

func (w *fixture) jobEnds(name string, how batchv1.JobConditionType) (j *batchv1.Job) {
	w.t.Helper()
	w.until("job "+name+" to be "+string(how), func() (ok bool) {
		var err error
		j, err = w.Client.BatchV1().Jobs("default").Get(w.ctx, name, metav1.GetOptions{})
		expect.NoError(w.t, err)
		return slices.ContainsFunc(j.Status.Conditions,
			func(c batchv1.JobCondition) bool { return c.Type == how && c.Status == v1.ConditionTrue })
	})
	return j
}

// Workloads and what their controllers do, on one node.
func TestControllers(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("control", func(t *testing.T) {
		for _, x := range []struct {
			name string
			test func(*fixture)
		}{
			{"rollout", rollout},                     // row: CTL-03, CTL-04, CTL-05
			{"job", jobRuns},                         // row: CTL-08
			{"job with a sidecar", jobWithSidecar},   // row: CTL-09
			{"job counts no disruption", jobIgnores}, // row: CTL-10, PDB-14
			{"evicted Pods stay", evictedStays},      // row: CTL-22
			{"one POST for all", apiServerOnly},      // row: API-02
			{"tainted out", taintedOut},              // row: CTL-17 (last: it empties the node)
		} {
			t.Run(x.name, func(t *testing.T) { x.test(w.forSubtest(t)) })
		}
	})
}

func rollout(w *fixture) {
	states := w.record()
	watched, err := w.Client.AppsV1().ReplicaSets("default").Watch(w.ctx, metav1.ListOptions{LabelSelector: "app=web"})
	expect.NoError(w.t, err)
	defer watched.Stop()
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	w.deploy("web", 4, func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &none}}
	})
	old := w.live("app=web")
	for _, p := range old {
		if got := w.exec(&p, "sh", "-c", "echo $COLOUR"); got != "red\n" {
			w.t.Errorf("the container's COLOUR: got %q, want %q", got, "red\n")
		}
	}
	w.paint("web", "blue")
	w.rolled("web", 4)
	for _, p := range w.live("app=web") {
		if got := w.exec(&p, "sh", "-c", "echo $COLOUR"); got != "blue\n" {
			w.t.Errorf("the new container's COLOUR is %q", got)
		}
	}
	sets, err := w.Client.AppsV1().ReplicaSets("default").List(w.ctx, metav1.ListOptions{LabelSelector: "app=web"})
	expect.NoError(w.t, err)
	if len(sets.Items) != 2 {
		w.t.Errorf("%d ReplicaSets", len(sets.Items))
	}
	ready, grown := map[types.UID]bool{}, false
	for _, p := range states() {
		if p.Labels["app"] != "web" {
			continue
		}
		for _, was := range old {
			if p.UID == was.UID && p.Spec.Containers[0].Env[0].Value != "red" {
				w.t.Errorf("%s was changed", p.Name)
			}
		}
		delete(ready, p.UID)
		if p.DeletionTimestamp == nil && condition(p, v1.PodReady).Status == v1.ConditionTrue {
			ready[p.UID] = true
		}
		if grown = grown || len(ready) == 4; grown && len(ready) < 4 {
			w.t.Errorf("%d Pods are ready, where no fewer than 4 may be", len(ready))
		}
	}
	sizes := map[string]int32{}
	for _, e := range w.eventsUntil(watched, &appsv1.ReplicaSetList{}, sets) {
		if s, ok := e.Object.(*appsv1.ReplicaSet); ok {
			sizes[s.Name] = *s.Spec.Replicas
		}
		if n := sum(sizes); n > 5 {
			w.t.Errorf("%d Pods are asked for, where no more than 5 may be", n)
		}
	}
	if len(sizes) != 2 || sum(sizes) != 4 {
		w.t.Errorf("ReplicaSets of %v", sizes)
	}
}

func sum(sizes map[string]int32) (n int32) {
	for _, s := range sizes {
		n += s
	}
	return n
}

func jobRuns(w *fixture) {
	spec := scriptPod("", "echo hello").Spec
	spec.RestartPolicy = v1.RestartPolicyNever
	w.job("hello", batchv1.JobSpec{Completions: ptr(int32(3)), Parallelism: ptr(int32(2)),
		Template: v1.PodTemplateSpec{Spec: spec}})
	if j := w.jobEnds("hello", batchv1.JobComplete); j.Status.Succeeded != 3 || len(w.pods("job-name=hello")) != 3 {
		w.t.Errorf("got %+v, want Succeeded 3 and len 3", j.Status)
	}
	spec = scriptPod("", "exit 3").Spec
	spec.RestartPolicy = v1.RestartPolicyNever
	w.job("fails", batchv1.JobSpec{BackoffLimit: ptr(int32(0)), Template: v1.PodTemplateSpec{Spec: spec}})
	j := w.jobEnds("fails", batchv1.JobFailed)
	if last := j.Status.Conditions[len(j.Status.Conditions)-1]; last.Reason != batchv1.JobReasonBackoffLimitExceeded ||
		j.Status.Failed != 1 {
		w.t.Errorf("got %+v, want Reason JobReasonBackoffLimitExceeded and Failed 1", j.Status)
	}
}

func jobWithSidecar(w *fixture) {
	spec := scriptPod("", "sleep 0.05").Spec
	spec.RestartPolicy = v1.RestartPolicyNever
	side := scriptContainer("side", "while true; do sleep 0.05; done")
	side.RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
	spec.InitContainers = []v1.Container{side}
	w.job("myjob", batchv1.JobSpec{Template: v1.PodTemplateSpec{Spec: spec}})
	if j := w.jobEnds("myjob", batchv1.JobComplete); j.Status.Succeeded != 1 {
		w.t.Errorf("got %+v, want Succeeded 1", j.Status)
	}
}

func jobIgnores(w *fixture) {
	w.On(testcluster.Match{Image: "doomed:1"}, testcluster.Script{Main: func(p *testcluster.Process) int {
		<-p.Signal
		return 3
	}})
	spec := scriptPod("", "").Spec
	spec.Containers[0].Image = "doomed:1"
	spec.RestartPolicy = v1.RestartPolicyNever
	w.job("patient", batchv1.JobSpec{
		BackoffLimit: ptr(int32(0)), Template: v1.PodTemplateSpec{Spec: spec},
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}},
		}}},
	})
	var p v1.Pod
	w.until("a Pod that runs", func() bool {
		live := w.live("job-name=patient")
		if len(live) == 1 && running(&live[0]) {
			p = live[0]
		}
		return p.Name != ""
	})
	expect.NoError(w.t, w.Client.PolicyV1().Evictions("default").Evict(w.ctx,
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: "default"}}))
	w.waitForDeletion(p.Name) // its end was looked at: else its finalizer would hold it
	j, err := w.Client.BatchV1().Jobs("default").Get(w.ctx, "patient", metav1.GetOptions{})
	expect.NoError(w.t, err)
	if len(j.Status.Conditions) > 0 || j.Status.Failed > 0 {
		w.t.Errorf("one disruption, and the Job: got %+v, want no Conditions and Failed 0", j.Status)
	}
}

func evictedStays(w *fixture) {
	w.create(scriptPod("evicted", ""))
	w.wait("evicted", running)
	_, err := w.Client.CoreV1().Pods("default").Patch(w.ctx, "evicted", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["example.com/kept"]}}`), metav1.PatchOptions{})
	expect.NoError(w.t, err)
	p := scriptPod("left-over", "")
	p.Spec.SchedulerName = "nobody"
	w.create(p)
	_, err = w.Client.CoreV1().Pods("default").Patch(w.ctx, "left-over", types.MergePatchType,
		[]byte(`{"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory."}}`),
		metav1.PatchOptions{}, "status")
	expect.NoError(w.t, err)
	spec := scriptPod("", "exit 0").Spec
	spec.RestartPolicy = v1.RestartPolicyNever
	w.job("brief", batchv1.JobSpec{TTLSecondsAfterFinished: ptr(int32(0)), Template: v1.PodTemplateSpec{Spec: spec}})
	w.until("the Job and its Pod to be removed", func() bool {
		_, err := w.Client.BatchV1().Jobs("default").Get(w.ctx, "brief", metav1.GetOptions{})
		return apierrors.IsNotFound(err) && len(w.pods("job-name=brief")) == 0
	})
	if p := w.get("left-over"); p.Status.Reason != "Evicted" || p.DeletionTimestamp != nil {
		w.t.Errorf("got %+v, want Reason Evicted and no DeletionTimestamp", p.Status)
	}
	_, err = w.Client.CoreV1().Pods("default").Patch(w.ctx, "evicted", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	expect.NoError(w.t, err)
}

// apiServerOnly: whoever makes a Pod, the same request made it, under its own name.
func apiServerOnly(w *fixture) {
	w.create(scriptPod("by-hand", ""))
	w.deploy("by-set", 1)
	spec := scriptPod("", "").Spec
	spec.RestartPolicy = v1.RestartPolicyNever
	w.job("by-job", batchv1.JobSpec{Template: v1.PodTemplateSpec{Spec: spec}})
	w.until("the Job's Pod", func() bool { return len(w.pods("job-name=by-job")) == 1 })
	for pod, want := range map[string]string{
		"by-hand":                         "kubernetes-admin",
		w.pods("app=by-set")[0].Name:      "system:serviceaccount:kube-system:replicaset-controller",
		w.pods("job-name=by-job")[0].Name: "system:serviceaccount:kube-system:job-controller",
	} {
		var by []string
		for _, e := range w.Journal("default", pod) {
			if f, ok := e.Fact.(journal.Written); ok && f.Verb == "create" && f.Subresource == "" {
				by = append(by, f.User)
			}
		}
		if len(by) != 1 || by[0] != want {
			w.t.Errorf("%s was created by %q, want %s", pod, by, want)
		}
	}
}

func taintedOut(w *fixture) {
	stays := scriptPod("driven-out", "trap '' TERM; while true; do sleep 0.05; done")
	stays.Spec.TerminationGracePeriodSeconds = ptr(int64(60)) // it is looked at while it ends
	w.create(stays)
	w.wait("driven-out", running)
	_, err := w.Client.CoreV1().Nodes().Patch(w.ctx, "node-1", types.StrategicMergePatchType,
		[]byte(`{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`), metav1.PatchOptions{})
	expect.NoError(w.t, err)
	p := w.wait("driven-out", func(p *v1.Pod) bool { return p.DeletionTimestamp != nil })
	if c := condition(p, v1.DisruptionTarget); c.Status != v1.ConditionTrue || c.Reason != "DeletionByTaintManager" {
		w.t.Errorf("got %+v, want Status ConditionTrue and Reason DeletionByTaintManager", c)
	}
}

// A Pod that ended is replaced, also when its end is the only state of it in the API.
//
// row: CTL-02
func TestAnEndedPodIsReplaced(t *testing.T) {
	t.Parallel()
	w := start(t, testcluster.WithNodes())
	labels := map[string]string{"app": "set"}
	_, err := w.Client.AppsV1().ReplicaSets("default").Create(w.ctx,
		&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}, Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: labelled("app", "set", scriptPod("", "").Spec),
		}}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	seen := sets.New[types.UID]()
	for _, phase := range []string{"Failed", "Succeeded"} {
		w.until("a Pod of the set", func() bool { return len(w.live("app=set")) == 1 })
		p := w.live("app=set")[0]
		if seen.Has(p.UID) {
			t.Fatal("the same Pod again")
		}
		seen.Insert(p.UID)
		_, err := w.Client.CoreV1().Pods("default").Patch(w.ctx, p.Name, types.MergePatchType,
			[]byte(`{"status":{"phase":"`+phase+`"}}`), metav1.PatchOptions{}, "status")
		expect.NoError(w.t, err)
	}
	w.until("the last replacement", func() bool {
		live := w.live("app=set")
		return len(live) == 1 && !seen.Has(live[0].UID)
	})
}

// Controllers that were away find what changed meanwhile, make nothing twice, and end at what is
// wanted.
//
// row: CTL-23
func TestControllersStartAgain(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.deploy("steady", 3)
	before := sets.New[types.UID]()
	for _, p := range w.live("app=steady") {
		before.Insert(p.UID)
	}
	states := w.record()
	w.KillControllers()
	gone := w.live("app=steady")[0]
	w.delete(gone.Name, metav1.DeleteOptions{})
	w.waitForDeletion(gone.Name)
	_, err := w.Client.AppsV1().Deployments("default").Patch(w.ctx, "steady", types.MergePatchType,
		[]byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{})
	expect.NoError(w.t, err)
	w.StartControllers()
	w.rolled("steady", 5)
	w.KillControllers()
	w.StartControllers()
	_, err = w.Client.AppsV1().Deployments("default").Patch(w.ctx, "steady", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"seen":"again"}},"spec":{"replicas":6}}`), metav1.PatchOptions{})
	expect.NoError(w.t, err)
	w.rolled("steady", 6)
	made := sets.New[string]()
	for _, p := range states() {
		if strings.HasPrefix(p.Name, "steady-") && !before.Has(p.UID) {
			made.Insert(p.Name)
		}
	}
	if len(made) != 4 { // one for the Pod that went, three more
		t.Errorf("%d Pods were made: %q", len(made), sets.List(made))
	}
}
