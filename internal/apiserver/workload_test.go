package apiserver

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/test/wrappers"
)

// workloads starts a server with GenericWorkload on.
func workloads(t *testing.T) (kubernetes.Interface, string) {
	t.Helper()
	c := testConfig(t.TempDir())
	c.Features = features.Features{GenericWorkload: true}
	s, stop, err := launch(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	client := kubernetes.NewForConfigOrDie(s.InProcess(admin()))
	return client, newNamespace(t, client)
}

func grouped(name string) *corev1.Pod {
	return wrappers.MakePod().Name(name).Container("c", "i").SchedulingGroup("g").Obj()
}

func TestWithoutTheGateThereAreNoPodGroups(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	if _, err := c.SchedulingV1beta1().PodGroups(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(
		err) {
		t.Errorf("PodGroups are listed: %v", err)
	}
	p := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), grouped("a"), metav1.CreateOptions{}))
	if p.Spec.SchedulingGroup != nil {
		t.Errorf("spec.schedulingGroup stays: %v, want nil", p.Spec.SchedulingGroup)
	}
}

func TestPodGroupsAreServedWithTheGate(t *testing.T) {
	c, ns := workloads(t)
	groups := c.SchedulingV1beta1().PodGroups(ns)
	gang := func(n int32) schedulingv1beta1.PodGroupSchedulingPolicy {
		return schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: n}}
	}
	made := mustCreate[*schedulingv1beta1.PodGroup](t)(groups.Create(t.Context(), &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "g"}, Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: gang(3),
			PreemptionPolicy: new(schedulingv1beta1.PreemptNever)},
	}, metav1.CreateOptions{}))
	if made.Generation != 1 || made.Spec.DisruptionMode == nil || made.Spec.DisruptionMode.Single == nil ||
		made.Spec.PreemptionPolicy != nil {
		t.Errorf("made %+v of generation %d", made.Spec, made.Generation)
	}
	grown := mustCreate[*schedulingv1beta1.PodGroup](t)(groups.Patch(t.Context(), "g", types.MergePatchType,
		[]byte(`{"spec":{"schedulingPolicy":{"gang":{"minCount":2}}}}`), metav1.PatchOptions{}))
	if grown.Generation != 2 || grown.Spec.SchedulingPolicy.Gang.MinCount != 2 {
		t.Errorf("after a change of minCount: %+v", grown)
	}
	for patch, want := range map[string]string{
		`{"spec":{"schedulingPolicy":{"gang":{"minCount":-1}}}}`: `spec.schedulingPolicy.gang.minCount: Invalid ` +
			`value: -1: must be greater than or equal to 1`,
		`{"spec":{"schedulingPolicy":{"gang":{"minCount":0}}}}`: `spec.schedulingPolicy.gang.minCount: Required value`,
		`{"spec":{"schedulingPolicy":{"gang":null,"basic":{}}}}`: `spec.schedulingPolicy.gang: Invalid value: null: ` +
			`field cannot be cleared once set`,
		`{"spec":{"schedulingPolicy":{"basic":{}}}}`:    "must specify exactly one of: `basic`, `gang`",
		`{"spec":{"schedulingPolicy":{"gang":null}}}`:   "must specify one of: `basic`, `gang`",
		`{"spec":{"workloadRef":{"workloadName":"w"}}}`: `spec.workloadRef.templateName: Required value`,
		`{"spec":{"disruptionMode":{"single":null,"all":{}}}}`: `spec.disruptionMode: Invalid value: null: field is ` +
			`immutable`,
		`{"spec":{"priorityClassName":"Bad_Name"}}`: `spec.priorityClassName: Invalid value: "Bad_Name"`,
	} {
		if _, err := groups.Patch(t.Context(), "g", types.MergePatchType, []byte(patch),
			metav1.PatchOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", patch, err, want)
		}
	}
	grown.Status.Conditions = []metav1.Condition{{Type: schedulingv1beta1.PodGroupInitiallyScheduled,
		Status: metav1.ConditionTrue, Reason: "Scheduled", LastTransitionTime: metav1.Now()}}
	updated := mustCreate[*schedulingv1beta1.PodGroup](t)(groups.UpdateStatus(t.Context(), grown,
		metav1.UpdateOptions{}))
	if len(updated.Status.Conditions) != 1 || updated.Generation != 2 {
		t.Errorf("status %+v, generation %d", updated.Status, updated.Generation)
	}
	if p := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), grouped("a"),
		metav1.CreateOptions{})); p.Spec.SchedulingGroup == nil {
		t.Error("spec.schedulingGroup is dropped")
	}
	bad := grouped("b")
	bad.Spec.SchedulingGroup.PodGroupName = nil
	if _, err := c.CoreV1().Pods(ns).Create(t.Context(), bad, metav1.CreateOptions{}); err == nil ||
		!strings.Contains(err.Error(),
			"spec.schedulingGroup: Invalid value: \"\": must specify one of: `podGroupName`") {
		t.Errorf("a Pod of no group: %v", err)
	}
	if _, err := c.CoreV1().Pods(ns).Patch(t.Context(), "a", types.MergePatchType,
		[]byte(`{"spec":{"schedulingGroup":{"podGroupName":"h"}}}`), metav1.PatchOptions{}); err == nil ||
		!strings.Contains(err.Error(), "may not change fields") {
		t.Errorf("a Pod changes its group: %v", err)
	}
}

func TestWorkloadsKeepTheirTemplates(t *testing.T) {
	c, ns := workloads(t)
	all := c.SchedulingV1beta1().Workloads(ns)
	w := &schedulingv1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: schedulingv1beta1.WorkloadSpec{
		ControllerRef: &schedulingv1beta1.TypedLocalObjectReference{APIGroup: "batch", Kind: "Job", Name: "j"},
		PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{
			{Name: "a", SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 3}}}},
	}}
	mustCreate[*schedulingv1beta1.Workload](t)(all.Create(t.Context(), w, metav1.CreateOptions{}))
	for patch, want := range map[string]string{
		`[{"op":"replace","path":"/spec/podGroupTemplates/0/schedulingPolicy/gang/minCount","value":4}]`: "",
		`[{"op":"replace","path":"/spec/podGroupTemplates/0/priorityClassName",` +
			`"value":"x"}]`: "field is immutable",
		`[{"op":"add","path":"/spec/podGroupTemplates/-","value":{"name":"b",` +
			`"schedulingPolicy":{"basic":{}}}}]`: "spec.podGroupTemplates[1]: Forbidden: item may not be added",
		`[{"op":"replace","path":"/spec/podGroupTemplates","value":[]}]`: "item may not be removed",
		`[{"op":"replace","path":"/spec/podGroupTemplates/0/name","value":"B"}]`: "spec.podGroupTemplates[0].name: " +
			"Invalid value",
		`[{"op":"remove","path":"/spec/controllerRef"}]`: "spec.controllerRef: Invalid value: null: field is immutable",
	} {
		_, err := all.Patch(context.Background(), "w", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", patch, err, want)
		}
	}
}
