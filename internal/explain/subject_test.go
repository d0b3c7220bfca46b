package explain

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

func wants(name, cpu string) corev1.Container {
	return corev1.Container{Name: name,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
}

// Each row is an object, and what the answer about it says.
func TestWhyObject(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "x"}
	yes := true
	overQuota := &appsv1.Deployment{ObjectMeta: meta}
	overQuota.Spec.Template.Spec.Containers = []corev1.Container{wants("a", "600m"), wants("b", "100m")}
	overQuota.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure,
		Status: corev1.ConditionTrue,
		Message: `pods "x-1" is forbidden: exceeded quota: q, requested: requests.cpu=700m, used: requests.cpu=1,` +
			` limited: requests.cpu=1500m`}}
	suspended := &batchv1.Job{ObjectMeta: meta,
		Status: batchv1.JobStatus{
			Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}}}
	refusedBy := func(message string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: meta,
			Status: appsv1.DeploymentStatus{
				Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure,
					Status: corev1.ConditionTrue, Message: message}}}}
	}
	guard := &NamespaceContext{Webhooks: []Webhook{{Name: "other"},
		{Name: "pods.guard.example", Kind: "validatingwebhookconfiguration", Configuration: "guard", Index: 1,
			Service: "infra/guard"}}, RuntimeClasses: []string{"gvisor"}}
	sick := base()
	sick.state(waiting("CreateContainerConfigError", `secret "s" not found`))
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	for _, c := range []struct {
		name string
		s    Subject
		want []string
	}{
		{"sum of the containers over a quota", Subject{Kind: "deployment", Object: overQuota},
			[]string{"quota q of namespace shop", "700m", "a the largest with 600m", "1000m of 1500m", "200m over",
				`"requests":{"cpu":"400m"}`, `"requests.cpu":"1700m"`}},
		{"priority class that is not there",
			Subject{Kind: "deployment",
				Object: refusedBy(`pods "x-" is forbidden: no PriorityClass with name importent was found`),
				ClusterContext: &ClusterContext{
					Classes: []*schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "important"}}}}},
			[]string{"PriorityClass importent does not exist, and the template names it (priorityClassName)",
				"There is a PriorityClass important",
				`{"spec":{"template":{"spec":{"priorityClassName":"important","priority":null}}}}`,
				"default priority"}},
		{"runtime class that is not there",
			Subject{Kind: "deployment",
				Object:           refusedBy(`pods "x-" is forbidden: pod rejected: RuntimeClass "gvizor" not found`),
				NamespaceContext: guard},
			[]string{"RuntimeClass gvizor does not exist", "There is a RuntimeClass gvisor",
				`patch deployment x --type=merge -p '{"spec":{"template":{"spec":{"runtimeClassName":"gvisor"}}}}'`,
				`"runtimeClassName":null`}},
		{"no runtime class at all",
			Subject{Kind: "deployment", Object: refusedBy(`pod rejected: RuntimeClass "gvizor" not found`),
				NamespaceContext: &NamespaceContext{RuntimeClasses: []string{}}},
			[]string{"There is no RuntimeClass at all", "create the RuntimeClass gvizor"}},
		{"webhook that cannot be asked",
			Subject{Kind: "deployment",
				Object: refusedBy(
					`Internal error occurred: failed calling webhook "pods.guard.example": failed to call webhook: ` +
						`Post "https://guard.infra.svc:443/x?timeout=2s": service "guard" not found`),
				NamespaceContext: guard},
			[]string{"webhook pods.guard.example (validatingwebhookconfiguration guard) must be asked about each " +
				"(failurePolicy Fail)", `it cannot be: service "guard" not found.`, "gantry why service/guard -n infra",
				`"path":"/webhooks/1/failurePolicy","value":"Ignore"`, "nothing checks them then"}},
		{"webhook that refuses",
			Subject{Kind: "deployment",
				Object: refusedBy(
					`admission webhook "pods.guard.example" denied the request: image must be signed`),
				NamespaceContext: guard},
			[]string{"webhook pods.guard.example (validatingwebhookconfiguration guard) refuses it: image must be " +
				"signed."}},
		{"webhook that the asker may not see",
			Subject{Kind: "deployment",
				Object: refusedBy(`admission webhook "a.b.c" denied the request without explanation`)},
			[]string{"webhook a.b.c refuses it without explanation."}},
		{"paused", Subject{Kind: "deployment", Object: &appsv1.Deployment{ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{Paused: true}}}, []string{"paused", "rollout resume"}},
		{"by its worst Pod", Subject{Kind: "statefulset", Object: &appsv1.StatefulSet{ObjectMeta: meta},
			WorstPod: &sick}, []string{"0 of 1 Pods are ready", "Pod web is CreateContainerConfigError",
			`secret "s" not found`}},
		{"all well",
			Subject{Kind: "replicaset",
				Object: &appsv1.ReplicaSet{ObjectMeta: meta, Status: appsv1.ReplicaSetStatus{ReadyReplicas: 1}}},
			[]string{"Ready", "All 1 Pods"}},
		{"suspended Job", Subject{Kind: "job", Object: suspended}, []string{"suspended", `"suspend":false`}},
		{"suspended CronJob",
			Subject{Kind: "cronjob",
				Object: &batchv1.CronJob{ObjectMeta: meta,
					Spec: batchv1.CronJobSpec{Suspend: &yes, Schedule: "@hourly"}}},
			[]string{"suspended", "@hourly", "last run never"}},
		{"CronJob whose Jobs are suspended", suspendedJobs(meta), []string{"waits for its time,",
			"Of the Jobs that CronJob x makes: each is suspended", "/spec/jobTemplate/spec/suspend"}},
		{"Service nobody stands behind",
			Subject{Kind: "service",
				Object: &corev1.Service{ObjectMeta: meta,
					Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}}},
				ClusterContext: &ClusterContext{}}, []string{"no endpoints", "a=b", "no Pod carries that"}},
		{"cordoned node",
			Subject{Kind: "node", Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"},
				Spec: corev1.NodeSpec{Unschedulable: true}}}, []string{"cordoned", "kubectl uncordon x"}},
		{"silent node", Subject{Kind: "node", Object: node(corev1.ConditionUnknown)},
			[]string{"not Ready", "Kubelet stopped posting node status"}},
		{"claim of a class that is not there", Subject{Kind: "pvc", Object: claimOf("fats"),
			Classes: []*storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}}},
			[]string{"storage class fats, which does not exist"}},
		{"claim that waits for a Pod", Subject{Kind: "pvc", Object: claimOf("slow"),
			Classes: []*storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "slow"},
				VolumeBindingMode: &mode}}}, []string{"WaitForFirstConsumer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.Now, c.s.Namespace, c.s.Name = t0, "shop", "x"
			a := WhyObject(c.s)
			var b strings.Builder
			if err := a.WriteText(&b, t0); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("lacks %q:\n%s", want, b.String())
				}
			}
		})
	}
	for _, s := range []Subject{{Object: refusedBy(`pod rejected: RuntimeClass "gvizor" not found`)},
		{Object: refusedBy(`no PriorityClass with name importent was found`), ClusterContext: &ClusterContext{}}} {
		s.Kind, s.Now, s.Namespace, s.Name = "deployment", t0, "shop", "x"
		if a := WhyObject(s); !strings.Contains(a.Cause, "does not exist") || strings.Contains(a.Cause, "at all") {
			t.Errorf("classes that the asker may not see: %s", a.Cause)
		}
	}
	if a := WhyObject(Subject{}); a.Cause == "" {
		t.Error("no answer about nothing")
	}
}

// suspendedJobs is a CronJob that makes Jobs that are suspended.
func suspendedJobs(meta metav1.ObjectMeta) Subject {
	x := &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "@hourly"}}
	x.Spec.JobTemplate.Spec.Suspend = new(true)
	c := &finding.Cluster{Now: t0}
	c.Add("CronJob", x)
	return Subject{Kind: "cronjob", Object: x, Objects: c}
}

func claimOf(class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x"},
		Spec:   corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
}
