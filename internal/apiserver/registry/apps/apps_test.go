package apps

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
	"github.com/gantry-project/gantry/test/expect"
)

var errorTexts = expect.ErrorTexts

func podTemplate(edit ...func(*corev1.PodSpec)) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	t.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	for _, f := range edit {
		f(&t.Spec)
	}
	return t
}

func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
}

// TestClaimTemplatesAreVolumes: Pods of a StatefulSet may mount what its claim templates make, and
// nothing that nobody makes.
//
// row: API-44
func TestClaimTemplatesAreVolumes(t *testing.T) {
	set := func(claim, mount string) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		s.Spec.Selector = selector()
		s.Spec.Template = podTemplate(func(p *corev1.PodSpec) {
			p.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: mount, MountPath: "/data"}}
		})
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: claim},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			}}}
		defaultStatefulSet(s)
		return s
	}
	if got := errorTexts(checkStatefulSet(set("data", "data"), nil)); got != "" {
		t.Errorf("checkStatefulSet = %q, want nothing", got)
	}
	if got, want := errorTexts(checkStatefulSet(set("data", "other"), nil)),
		`spec.template.spec.containers[0].volumeMounts[0].name: Not found: "other"`; got != want {
		t.Errorf("checkStatefulSet = %q, want %q", got, want)
	}
	s := set("data", "data")
	if c := s.Spec.VolumeClaimTemplates[0]; c.Kind != "PersistentVolumeClaim" || c.APIVersion != "v1" ||
		c.Status.Phase != corev1.ClaimPending {
		t.Errorf("got %v, want Kind PersistentVolumeClaim, APIVersion v1 and Phase ClaimPending", c)
	}
	previous := s.DeepCopy()
	s.Spec.VolumeClaimTemplates[0].Labels = map[string]string{"z": "z"}
	if got := errorTexts(checkStatefulSet(s, previous)); !strings.HasPrefix(got,
		"spec.volumeClaimTemplates: Invalid value: ") || !strings.HasSuffix(got, "field is immutable") {
		t.Errorf(`got %v, want it beginning with "spec.volumeClaimTemplates: Invalid value:" and ending in "field `+
			`is immutable"`, got)
	}
}

// TestTemplatesAreValidated: a template is validated like a Pod, whichever workload has it.
//
// row: API-44
func TestTemplatesAreValidated(t *testing.T) {
	bad := podTemplate(func(p *corev1.PodSpec) { p.Containers[0].Name = "No Name" })
	for _, c := range []struct {
		kind resourcedef.Kind
		obj  runtime.Object
	}{
		{deployments(), &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: selector(), Template: bad}}},
		{replicaSets(), &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: selector(), Template: bad}}},
		{daemonSets(), &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: selector(), Template: bad}}},
		{statefulSets(), &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: selector(), Template: bad}}},
	} {
		c.kind.Rules.Default(c.obj)
		var got []string
		for _, e := range c.kind.Rules.Validate(t.Context(), c.obj) {
			got = append(got, e.Field)
		}
		if want := "spec.template.spec.containers[0].name"; !slices.Contains(got, want) {
			t.Errorf("%s: got errors of %q, want %s", c.kind.Resource, got, want)
		}
	}
}

func TestStatefulSetMaxUnavailable(t *testing.T) {
	for _, c := range []struct {
		value intstr.IntOrString
		want  string
	}{
		{intstr.FromInt32(2), ""},
		{intstr.FromString("50%"), ""},
		{intstr.FromInt32(0), "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0"},
		{intstr.FromString("101%"),
			"spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"},
	} {
		s := &appsv1.StatefulSet{}
		s.Spec.Selector, s.Spec.Template = selector(), podTemplate()
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &c.value}
		defaultStatefulSet(s)
		if got := errorTexts(checkStatefulSet(s, nil)); got != c.want {
			t.Errorf("%v: got %s, want %s", c.value, got, c.want)
		}
	}
}

// TestAnnotationsOfADeploymentCount: they are copied to ReplicaSets, so changing them is a new
// generation.
func TestAnnotationsOfADeploymentCount(t *testing.T) {
	rules := deployments().Rules
	previous := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	now := previous.DeepCopy()
	rules.PrepareUpdate(context.Background(), now, previous)
	if now.Generation != 3 {
		t.Errorf("now.Generation = %v, want 3", now.Generation)
	}
	now.Annotations = map[string]string{"a": "b"}
	rules.PrepareUpdate(context.Background(), now, previous)
	if now.Generation != 4 {
		t.Errorf("now.Generation = %v, want 4", now.Generation)
	}
	now.Labels = map[string]string{"by": "status"}
	if rules.PrepareStatus(context.Background(), now, previous); now.Labels != nil {
		t.Error("labels are not the status endpoint's to write")
	}
}

// TestTemplateGenerationFollowsTheTemplate: clients set the annotation of new objects alone, as in
// v1.37.2's code; a changed template counts it up.
func TestTemplateGenerationFollowsTheTemplate(t *testing.T) {
	rules := daemonSets().Rules
	d := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "9"}}}
	rules.PrepareCreate(context.Background(), d)
	for _, step := range []struct {
		edit func(*appsv1.DaemonSet)
		want string
	}{
		{func(*appsv1.DaemonSet) {}, "9"},
		{func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.NodeName = "n" }, "10"},
		{func(d *appsv1.DaemonSet) { d.Annotations = nil; d.Spec.MinReadySeconds = 5 }, "10"},
	} {
		previous := d.DeepCopy()
		step.edit(d)
		rules.PrepareUpdate(context.Background(), d, previous)
		if got := d.Annotations[appsv1.DeprecatedTemplateGeneration]; got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
}

// TestTemplateGenerationIsANumber: any other text is refused at creation and update, as by v1.37.2.
func TestTemplateGenerationIsANumber(t *testing.T) {
	rules := daemonSets().Rules
	for generation, want := range map[string]string{
		"7": "", "9223372036854775807": "",
		"9223372036854775808": `DaemonSet in version "v1" cannot be handled as a DaemonSet: strconv.ParseInt: ` +
			`parsing ` +
			`"9223372036854775808": value out of range`,
		"1a": `DaemonSet in version "v1" cannot be handled as a DaemonSet: strconv.ParseInt: parsing "1a": ` +
			`invalid syntax`,
		"abc": `DaemonSet in version "v1" cannot be handled as a DaemonSet: strconv.ParseInt: parsing "abc": ` +
			`invalid syntax`,
		"": `DaemonSet in version "v1" cannot be handled as a DaemonSet: strconv.ParseInt: parsing "": invalid syntax`,
	} {
		d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: generation}}}
		_, created := rules.BeginCreate(t.Context(), d, false)
		_, updated := rules.BeginUpdate(t.Context(), d, d, false)
		for _, err := range []error{created, updated} {
			if got := err; (got == nil) != (want == "") || got != nil && got.Error() != want {
				t.Errorf("generation %q: got error %v, want %q", generation, got, want)
			}
		}
	}
}

func TestCollisionsNeverDecrease(t *testing.T) {
	previous := &appsv1.Deployment{Status: appsv1.DeploymentStatus{CollisionCount: new(int32(2))}}
	now := &appsv1.Deployment{Status: appsv1.DeploymentStatus{CollisionCount: new(int32(1)), Replicas: 3,
		ReadyReplicas: 1, AvailableReplicas: 2}}
	want := "status.availableReplicas: Invalid value: 2: cannot be greater than " +
		"readyReplicas\nstatus.collisionCount: Invalid value: 1: cannot be decremented"
	if got := errorTexts(checkDeploymentStatus(now, previous)); got != want {
		t.Errorf("checkDeploymentStatus = %v, want %v", got, want)
	}
}

func TestRevisionDataIsKept(t *testing.T) {
	rev := func(raw string) *appsv1.ControllerRevision {
		c := &appsv1.ControllerRevision{Revision: 1}
		c.Data.Raw = []byte(raw)
		return c
	}
	if got, want := errorTexts(checkRevision(rev(""), nil)),
		"data: Required value: data is mandatory"; got != want {
		t.Errorf("checkRevision = %q, want %q", got, want)
	}
	if got := errorTexts(checkRevision(rev(`{"a":2}`), rev(`{"a":1}`))); !strings.HasSuffix(got, "field is immutable") {
		t.Errorf(`got %v, want it ending in "field is immutable"`, got)
	}
	if got := errorTexts(checkRevision(rev(`{"a":1}`), rev(`{"a":1}`))); got != "" {
		t.Errorf("checkRevision = %q, want nothing", got)
	}
}

// Strategies that defaults leave to nobody are refused all the same: a client of another version
// may have stored them.
func TestStrategiesWithoutDefaults(t *testing.T) {
	daemon := func(s appsv1.DaemonSetUpdateStrategy) string {
		var f typed.Errors
		checkDaemonStrategy(&f, &s)
		return text(f.List())
	}
	deployment := func(s appsv1.DeploymentStrategy) string {
		var f typed.Errors
		checkStrategy(&f, &s)
		return text(f.List())
	}
	stateful := func(policy appsv1.PodManagementPolicyType, s appsv1.StatefulSetUpdateStrategy) string {
		var f typed.Errors
		checkStatefulStrategy(&f, &appsv1.StatefulSetSpec{PodManagementPolicy: policy, UpdateStrategy: s})
		return text(f.List())
	}
	rolling := appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
	for name, c := range map[string]struct{ got, want string }{
		"a DaemonSet's rollingUpdate": {daemon(appsv1.DaemonSetUpdateStrategy{
			Type: appsv1.RollingUpdateDaemonSetStrategyType}), "spec.updateStrategy.rollingUpdate: Required value"},
		"a DaemonSet's type": {daemon(appsv1.DaemonSetUpdateStrategy{}), "spec.updateStrategy: Unsupported value: " +
			`{"Type":"","RollingUpdate":null}: supported values: "RollingUpdate", "OnDelete"`},
		"a DaemonSet's OnDelete": {
			daemon(appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}), ""},
		"a Deployment's rollingUpdate": {deployment(appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType}),
			"spec.strategy.rollingUpdate: Required value: this should be defaulted and never be nil"},
		"a Deployment's Recreate": {deployment(appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}),
			""},
		"a StatefulSet's policy": {stateful("", rolling), "spec.podManagementPolicy: Required value"},
		"a StatefulSet's type": {stateful(appsv1.ParallelPodManagement, appsv1.StatefulSetUpdateStrategy{}),
			"spec.updateStrategy: Required value"},
		"a StatefulSet's rollingUpdate": {stateful(appsv1.OrderedReadyPodManagement, rolling), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
}

func text(errs field.ErrorList) string {
	if len(errs) == 0 {
		return ""
	}
	return errs.ToAggregate().Error()
}
