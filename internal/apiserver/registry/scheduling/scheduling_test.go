package scheduling_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/scheduling"
)

// read makes an object of a kind, with its defaults.
func read(t *testing.T, k *resourcedef.Kind, text string) runtime.Object {
	t.Helper()
	obj := k.Types.New()
	if err := json.Unmarshal([]byte(text), obj); err != nil {
		t.Fatalf("%s: got error %v, want none", text, err)
	}
	if k.Rules.Default != nil {
		k.Rules.Default(obj)
	}
	return obj
}

// messages is what a client reads of errors.
func messages(errs field.ErrorList) string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return strings.Join(out, "; ")
}

func beta(t *testing.T, name string) *resourcedef.Kind {
	t.Helper()
	for _, k := range scheduling.BetaKinds() {
		if k.Kind == name {
			return &k
		}
	}
	t.Fatalf("there is no kind %s", name)
	return nil
}

// check validates an object, as a change of another if that is not empty.
func check(t *testing.T, k *resourcedef.Kind, was, is string) string {
	t.Helper()
	if was == "" {
		return messages(k.Rules.Validate(t.Context(), read(t, k, is)))
	}
	return messages(k.Rules.ValidateUpdate(t.Context(), read(t, k, is), read(t, k, was)))
}

const (
	noPolicy   = "Invalid value: \"\": must specify one of: `basic`, `gang`"
	fixed      = ": Invalid value: null: field is immutable"
	badName    = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'`
	badLabel   = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'`
	tooHigh    = ": Invalid value: 1000000001: must be less than or equal to 1000000000"
	twoChoices = "Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`"
)

// What PodGroups, and templates of them, may be (KEP-4671).
func TestPodGroups(t *testing.T) {
	k := beta(t, "PodGroup")
	const gang = `"schedulingPolicy":{"gang":{"minCount":2}}`
	for _, c := range []struct{ was, is, want string }{
		{"", gang, ""},
		{"", `"schedulingPolicy":{"basic":{}}`, ""},
		{"", `"schedulingPolicy":{}`, "spec.schedulingPolicy: " + noPolicy},
		{"", `"schedulingPolicy":{"basic":{},"gang":{"minCount":1}}`, "spec.schedulingPolicy: " + twoChoices},
		{"", `"schedulingPolicy":{"gang":{}}`, "spec.schedulingPolicy.gang.minCount: Required value"},
		{"", `"schedulingPolicy":{"gang":{"minCount":-1}}`,
			"spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"},
		{"", gang + `,"disruptionMode":{}`, "spec.disruptionMode: Invalid value: \"\": must specify one of: " +
			"`single`, `all`"},
		{"", gang + `,"disruptionMode":{"single":{},"all":{}}`,
			"spec.disruptionMode: Invalid value: \"{single, all}\": must specify exactly one of: `single`, `all`"},
		{"", gang + `,"disruptionMode":{"all":{}}`, ""},
		{"", gang + `,"priorityClassName":"Bad_Name"`, `spec.priorityClassName: Invalid value: "Bad_Name": ` + badName},
		{"", gang + `,"priorityClassName":"good.name","priority":1000000000`, ""},
		{"", gang + `,"priority":1000000001`, "spec.priority" + tooHigh},
		{"", gang + `,"workloadRef":{}`, "spec.workloadRef.workloadName: Required value; " +
			"spec.workloadRef.templateName: Required value"},
		{"", gang + `,"workloadRef":{"workloadName":"a.b","templateName":"a.b"}`,
			`spec.workloadRef.templateName: Invalid value: "a.b": must not contain dots`},
		{"", gang + `,"workloadRef":{"workloadName":"A","templateName":"a"}`,
			`spec.workloadRef.workloadName: Invalid value: "A": ` + badName},
		{gang, `"schedulingPolicy":{"gang":{"minCount":3}}`, ""},
		{gang, `"schedulingPolicy":{"basic":{}}`, "spec.schedulingPolicy.basic" + fixed +
			"; spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set"},
		{`"schedulingPolicy":{"basic":{}}`, gang, "spec.schedulingPolicy.basic" + fixed +
			"; spec.schedulingPolicy.gang: Invalid value: null: field cannot be set once created"},
		{gang, gang + `,"workloadRef":{"workloadName":"w","templateName":"t"}`, "spec.workloadRef" + fixed},
		{gang, gang + `,"disruptionMode":{"all":{}}`, "spec.disruptionMode" + fixed},
		{gang, gang + `,"priorityClassName":"p"`, "spec.priorityClassName" + fixed},
		{gang, gang + `,"priority":1`, "spec.priority" + fixed},
	} {
		was := ""
		if c.was != "" {
			was = `{"spec":{` + c.was + `}}`
		}
		got := check(t, k, was, `{"spec":{`+c.is+`}}`)
		if got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s after %q: got  %s\nwant %s", c.is, c.was, got, c.want)
		}
	}
}

// What stands behind gates that are off is dropped; a status keeps conditions alone.
func TestPodGroupsFieldsBehindGates(t *testing.T) {
	k := beta(t, "PodGroup")
	const all = `{"spec":{"parentCompositePodGroupName":"p","schedulingConstraints":{},"preemptionPolicy":"Never",` +
		`"resourceClaims":[{"name":"c"}]},"status":{"resourceClaimStatuses":[{"name":"c"}]}}`
	const want = `{"metadata":{},"spec":{"schedulingPolicy":{},"disruptionMode":{"single":{}}},"status":{}}`
	for name, prepare := range map[string]func(obj runtime.Object){
		"create": func(obj runtime.Object) { k.Rules.PrepareCreate(t.Context(), obj) },
		"update": func(obj runtime.Object) { k.Rules.PrepareUpdate(t.Context(), obj, read(t, k, all)) },
	} {
		obj := read(t, k, all)
		prepare(obj)
		k.Rules.PrepareStatus(t.Context(), obj, obj)
		if got, _ := json.Marshal(obj); string(got) != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	bad := read(t, k, `{"status":{"conditions":[{"type":"x"}]}}`)
	if got := messages(k.Rules.ValidateStatus(t.Context(), bad, bad)); !strings.HasPrefix(got,
		"status.conditions[0].status: Required value") {
		t.Errorf("a condition without a status: got %s", got)
	}
}

// What Workloads may be, and what of them stays.
func TestWorkloads(t *testing.T) {
	k := beta(t, "Workload")
	templates := func(texts ...string) string {
		return `{"spec":{"podGroupTemplates":[{` + strings.Join(texts, "},{") + `}]}}`
	}
	const a, b = `"name":"a","schedulingPolicy":{"gang":{"minCount":2}}`, `"name":"b","schedulingPolicy":{"basic":{}}`
	ref := func(text string) string {
		return strings.Replace(templates(a), `"spec":{`, `"spec":{"controllerRef":{`+text+`},`, 1)
	}
	var many []string
	for i := range 9 {
		many = append(many, strings.Replace(b, `"b"`, fmt.Sprintf(`"b%d"`, i), 1))
	}
	const first = "spec.podGroupTemplates[0]"
	for _, c := range []struct{ was, is, want string }{
		{"", templates(a, b), ""},
		{"", templates(many[:8]...), ""},
		{"", templates(many...), "spec.podGroupTemplates: Too many: 9: must have at most 8 items"},
		{"", `{}`, "spec: Invalid value: \"\": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"},
		{"", templates(a, a), "spec.podGroupTemplates[1]: Duplicate value: \"a\""},
		{"", templates(`"schedulingPolicy":{"basic":{}}`), first + ".name: Required value"},
		{"", templates(`"name":"A","schedulingPolicy":{"basic":{}}`), first + `.name: Invalid value: "A": ` + badLabel},
		{"", templates(`"name":"a"`), first + ".schedulingPolicy: " + noPolicy},
		{"", templates(a + `,"disruptionMode":{}`), first +
			".disruptionMode: Invalid value: \"\": must specify one of: `single`, `all`"},
		{"", templates(a + `,"priorityClassName":"A"`), first + `.priorityClassName: Invalid value: "A": ` + badName},
		{"", templates(a + `,"priority":1000000001`), first + ".priority" + tooHigh},
		{"", ref(`"kind":"Job","name":"j"`), ""},
		{"", ref(`"apiGroup":"batch","kind":"Job","name":"j"`), ""},
		{"", ref(`"apiGroup":"Batch","kind":"Job","name":"j"`),
			`spec.controllerRef.apiGroup: Invalid value: "Batch": ` +
				badName},
		{"", ref(``), "spec.controllerRef.kind: Required value; spec.controllerRef.name: Required value"},
		{"", ref(`"kind":"a/b","name":"a/b"`), "spec.controllerRef.kind: Invalid value: \"a/b\": may not contain " +
			"'/'; spec.controllerRef.name: Invalid value: \"a/b\": may not contain '/'"},
		{templates(a), ref(`"kind":"Job","name":"j"`), "spec.controllerRef" + fixed},
		{templates(a), templates(a), ""},
		{templates(a), templates(a, b), "spec.podGroupTemplates[1]: Forbidden: item may not be added"},
		{templates(a, b), templates(b), "spec.podGroupTemplates: Forbidden: item may not be removed"},
		{templates(a), templates(strings.Replace(a, "2", "3", 1)), ""},
		{templates(b, a), templates(b, a+`,"priority":3`), "spec.podGroupTemplates[1].priority" + fixed},
		{templates(a), templates(a + `,"priorityClassName":"p"`), first + ".priorityClassName" + fixed},
		{templates(a), templates(a + `,"disruptionMode":{"all":{}}`), first + ".disruptionMode" + fixed},
		{templates(a), templates(`"name":"a","schedulingPolicy":{"basic":{}}`), first + ".schedulingPolicy.basic" +
			fixed},
	} {
		if got := check(t, k, c.was, c.is); got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s after %q: got  %s\nwant %s", c.is, c.was, got, c.want)
		}
	}
	const gated = `{"spec":{"compositePodGroupTemplates":[{"name":"c"}],"podGroupTemplates":[{"name":"a",` +
		`"schedulingPolicy":{},"schedulingConstraints":{},"resourceClaims":[{"name":"c"}],` +
		`"preemptionPolicy":"Never"}]}}`
	const want = `{"metadata":{},"spec":{"podGroupTemplates":[{"name":"a","schedulingPolicy":{},` +
		`"schedulingConstraints":null}]}}`
	made, changed := read(t, k, gated), read(t, k, gated)
	k.Rules.PrepareCreate(t.Context(), made)
	k.Rules.PrepareUpdate(t.Context(), changed, made)
	for _, obj := range []runtime.Object{made, changed} {
		if got, _ := json.Marshal(obj); string(got) != want {
			t.Errorf("got %s, want what stands behind gates dropped: %s", got, want)
		}
	}
}

// The beta kinds' names and tables.
func TestBetaKindsDefinitions(t *testing.T) {
	for _, want := range []string{"scheduling.k8s.io v1beta1 workloads workload Workload *v1beta1.Workload " +
		"*v1beta1.WorkloadList true Name Age [x <unknown>] false []",
		"scheduling.k8s.io v1beta1 podgroups podgroup PodGroup *v1beta1.PodGroup *v1beta1.PodGroupList true Name Age " +
			"[x <unknown>] true [metadata]"} {
		k := beta(t, strings.Fields(want)[4])
		row := k.Table.Row(read(t, k, `{"metadata":{"name":"x"}}`), resourcedef.RowOptions{Now: metav1.Now()})
		got := fmt.Sprintf("%s %s %s %s %s %T %T %v %s %s %v %v %v", k.Group, k.Version, k.Resource, k.Singular, k.Kind,
			k.Types.New(), k.Types.NewList(), k.Types.Namespaced, k.Table.Columns[0].Name, k.Table.Columns[1].Name, row,
			k.Types.HasStatus, k.Types.StatusResetFields)
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	s := runtime.NewScheme()
	if err := scheduling.AddBeta(s); err != nil || !s.Recognizes(
		corev1.SchemeGroupVersion.WithKind("x")) && len(s.AllKnownTypes()) < 4 {
		t.Errorf("got %d types, %v, want those of both kinds", len(s.AllKnownTypes()), err)
	}
}

// With the gate Pods and templates keep the name of their PodGroup, which is validated, beside what
// their kinds do.
func TestPodsNameTheirGroup(t *testing.T) {
	group := &corev1.PodSchedulingGroup{PodGroupName: new("Bad_Name")}
	spec := corev1.PodSpec{SchedulingGroup: group}
	template := corev1.PodTemplateSpec{Spec: spec}
	for path, obj := range map[string]runtime.Object{
		"spec":                 &corev1.Pod{Spec: spec},
		"template.spec":        &corev1.PodTemplate{Template: template},
		"spec.template.spec 1": &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template}},
		"spec.template.spec 2": &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: template}},
		"spec.template.spec 3": &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template}},
		"spec.template.spec 4": &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: template}},
		"spec.template.spec 5": &batchv1.Job{Spec: batchv1.JobSpec{Template: template}},
		"spec.jobTemplate.spec.template.spec": &batchv1.CronJob{Spec: batchv1.CronJobSpec{
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}},
	} {
		path, _, _ = strings.Cut(path, " ")
		kind := func(r resourcedef.Rules) resourcedef.Rules {
			k := resourcedef.Kind{Types: resourcedef.Types{New: obj.DeepCopyObject}, Rules: r}
			return scheduling.WithGroups([]resourcedef.Kind{k})[0].Rules
		}
		want := fmt.Sprintf(`%s.schedulingGroup.podGroupName: Invalid value: "Bad_Name": %s`, path, badName)
		plain := kind(resourcedef.Rules{})
		plain.PrepareCreate(t.Context(), obj)
		plain.PrepareUpdate(t.Context(), obj, obj)
		for _, got := range []string{messages(plain.Validate(t.Context(), obj)),
			messages(plain.ValidateUpdate(t.Context(), obj, obj))} {
			if !strings.HasPrefix(got, want) || strings.Contains(got, "; ") && strings.Count(got, "Bad_Name") != 1 {
				t.Errorf("%T: got  %s\nwant %s", obj, got, want)
			}
		}
		dropping, asked := kind(dropper(obj)), 0
		dropping.PrepareCreate(t.Context(), obj)
		dropping.PrepareUpdate(t.Context(), obj, obj)
		for _, errs := range []field.ErrorList{dropping.Validate(t.Context(), obj),
			dropping.ValidateUpdate(t.Context(), obj, obj)} {
			if len(errs) == 2 && errs[0].Detail == "its own" && strings.HasPrefix(errs[1].Error(), want) {
				asked++
			}
		}
		if asked != 2 {
			t.Errorf("%T: its own rules drop the group or are not asked", obj)
		}
	}
	none := scheduling.WithGroups([]resourcedef.Kind{{}, {Types: resourcedef.Types{New: func() runtime.Object {
		return &corev1.Node{}
	}}}})
	for i, k := range none {
		if k.Rules.Validate != nil {
			t.Errorf("kind %d without a Pod spec got a rule, want none", i)
		}
	}
	pod := &corev1.Pod{}
	k := scheduling.WithGroups([]resourcedef.Kind{{Types: resourcedef.Types{New: pod.DeepCopyObject}}})[0]
	if got := messages(k.Rules.Validate(t.Context(), pod)); got != "" {
		t.Errorf("a Pod of no group: got %s, want no error", got)
	}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{}
	if got, want := messages(k.Rules.Validate(t.Context(), pod)),
		"spec.schedulingGroup: Invalid value: \"\": must specify "+
			"one of: `podGroupName`"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// dropper is rules of a kind that drop the group, and find something themselves.
func dropper(of runtime.Object) resourcedef.Rules {
	drop := func(obj runtime.Object) {
		switch o := obj.(type) {
		case *corev1.Pod:
			o.Spec.SchedulingGroup = nil
		case *appsv1.Deployment:
			o.Spec.Template.Spec.SchedulingGroup = nil
		}
	}
	own := field.ErrorList{field.Invalid(field.NewPath("x"), "", "its own")}
	return resourcedef.Rules{
		PrepareCreate:  func(_ context.Context, obj runtime.Object) { drop(obj) },
		PrepareUpdate:  func(_ context.Context, obj, _ runtime.Object) { drop(obj) },
		Validate:       func(context.Context, runtime.Object) field.ErrorList { return own },
		ValidateUpdate: func(context.Context, runtime.Object, runtime.Object) field.ErrorList { return own },
	}
}

// The two classes of the system, and others that begin like them.
func TestSystemPriorityClasses(t *testing.T) {
	k := scheduling.Kinds()[0]
	const reserved = "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system " +
		"use only. error: "
	for _, c := range []struct{ class, want string }{
		{`"metadata":{"name":"system-cluster-critical"},"value":2000000000`, ""},
		{`"metadata":{"name":"system-node-critical"},"value":2000001000`, ""},
		{`"metadata":{"name":"system-node-critical"},"value":2000000000`, reserved + "value of system-node-critical " +
			"PriorityClass must be 2000001000"},
		{`"metadata":{"name":"system-cluster-critical"},"value":1`, reserved + "value of system-cluster-critical " +
			"PriorityClass must be 2000000000"},
		{`"metadata":{"name":"system-cluster-critical"},"value":2000000000,"globalDefault":true`, reserved +
			"globalDefault of system-cluster-critical PriorityClass must be false"},
		{`"metadata":{"name":"system-mine"},"value":1`, reserved + "system-mine is not a known system priority class"},
		{`"metadata":{"name":"mine"},"value":1000000000`, ""},
		{`"metadata":{"name":"mine"},"value":1000000001`, "value: Forbidden: maximum allowed value of a user defined " +
			"priority is 1000000000"},
	} {
		if got := check(t, &k, "", "{"+c.class+"}"); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.class, got, c.want)
		}
	}
}
