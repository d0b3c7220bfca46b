package nodes

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
)

func messages(errs field.ErrorList) string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return strings.Join(out, "; ")
}

// Features that a node declares stand in order, each once and well formed (KEP-5328).
func TestDeclaredFeatures(t *testing.T) {
	const at, form = "status.declaredFeatures", ": must start with an UpperCamelCase segment"
	long := strings.Repeat("A", 253)
	for _, c := range []struct {
		list []string
		want string
	}{
		{nil, ""}, {[]string{"A", "B", "B/c", "C1/D2"}, ""}, {[]string{long}, ""},
		{[]string{"B", "A"}, at + `[1]: Invalid value: "A": list must be sorted alphabetically`},
		{[]string{"A", "A"}, at + `[1]: Duplicate value: "A"`},
		{[]string{"a"}, at + `[0]: Invalid value: "a": invalid feature name "a"` + form},
		{[]string{"A", "B/"}, at + `[1]: Invalid value: "B/": invalid feature name "B/"` + form},
		{[]string{long + "A"}, fmt.Sprintf(`%s[0]: Invalid value: "%sA": invalid feature name "%sA": must be no `+
			`more than `+
			"253 characters", at, long, long)},
	} {
		if got := messages(features(c.list)); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%.40q: got  %s\nwant %s", c.list, got, c.want)
		}
	}
}

// Annotations that were fields' forerunners are validated as these.
func TestAnnotations(t *testing.T) {
	const at = "metadata.annotations"
	taints := func(text string) map[string]string { return map[string]string{v1.TaintsAnnotationKey: text} }
	avoid := func(text string) map[string]string {
		return map[string]string{v1.PreferAvoidPodsAnnotationKey: `{"preferAvoidPods":[{"podSignature":{` + text +
			`}}]}`}
	}
	const key = at + "." + v1.PreferAvoidPodsAnnotationKey + "[0].PodSignature"
	for _, c := range []struct {
		annotations map[string]string
		want        string
	}{
		{nil, ""}, {taints(`[{"key":"k","effect":"NoSchedule"}]`), ""},
		{taints("x"), at + `: Invalid value: "scheduler.alpha.kubernetes.io/taints": invalid character 'x'`},
		{taints(`[{"key":"k"}]`), at + "." + v1.TaintsAnnotationKey + "[0].effect: Required value"},
		{map[string]string{v1.PreferAvoidPodsAnnotationKey: "x"}, at + `.AvoidPods: Invalid value: "` +
			v1.PreferAvoidPodsAnnotationKey + `": invalid character 'x'`},
		{avoid(""), key + ": Required value"},
		{avoid(`"podController":{"kind":"RC"}`), key + ".PodController.Controller: Invalid value: false: must " +
			"point to a controller"},
		{avoid(`"podController":{"controller":false}`), key + ".PodController.Controller: Invalid value: false"},
		{avoid(`"podController":{"controller":true}`), ""},
	} {
		got := messages(annotations(c.annotations, field.NewPath("metadata", "annotations")))
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%v: got  %s\nwant %s", c.annotations, got, c.want)
		}
	}
}

func TestTaints(t *testing.T) {
	for _, c := range []struct {
		list []v1.Taint
		want string
	}{
		{[]v1.Taint{{Key: "k", Effect: "NoSchedule"}, {Key: "k", Effect: "NoExecute"}}, ""},
		{[]v1.Taint{{Key: "k", Effect: "NoSchedule"}, {Key: "k", Effect: "NoSchedule"}}, "t[1]: Duplicate value: "},
		{[]v1.Taint{{Key: "k", Value: "-a b", Effect: "NoSchedule"}},
			`t[0].value: Invalid value: "-a b": a valid label must`},
		{[]v1.Taint{{Key: "k", Value: strings.Repeat("-", 64), Effect: "NoSchedule"}},
			`t[0].value: Invalid value: "-----`},
		{[]v1.Taint{{Key: "a b", Effect: "NoSchedule"}}, `t[0].key: Invalid value: "a b": `},
		{[]v1.Taint{{Key: "k"}}, "t[0].effect: Required value"},
		{[]v1.Taint{{Key: "k", Effect: "X"}}, `t[0].effect: Unsupported value: "X": supported values: "NoSchedule", ` +
			`"PreferNoSchedule", "NoExecute"`},
	} {
		got := messages(taints(c.list, field.NewPath("t")))
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%v: got  %s\nwant %s", c.list, got, c.want)
		}
	}
	got := messages(taints([]v1.Taint{{Key: "k", Value: strings.Repeat("-", 64), Effect: "NoSchedule"}},
		field.NewPath("t")))
	if !strings.Contains(got, "must be no more than 63 bytes;a valid label must") {
		t.Errorf("two faults of one value: got %s, want them joined", got)
	}
}

// What kubectl shows of a node's roles, and what a person is warned of.
func TestRolesAndWarnings(t *testing.T) {
	n := &v1.Node{}
	n.Labels = map[string]string{"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": "x",
		"node-role.kubernetes.io/": "", "kubernetes.io/role": "c", "other": "d"}
	if got := strings.Join(roles(n), ","); got != "a,b,c" {
		t.Errorf("roles: got %s, want a,b,c", got)
	}
	n.Labels["kubernetes.io/role"] = ""
	if got := strings.Join(roles(n), ","); got != "a,b" {
		t.Errorf("an empty role: got %s, want a,b", got)
	}
	n.Spec.PodCIDRs = []string{"10.0.0.0/24", "fd00:0::/64"}
	n.Spec.DoNotUseExternalID = "x"
	got := strings.Join(warn(n), "; ")
	if want := "spec.externalID: this field is deprecated, and is unused by Kubernetes; spec.podCIDRs[1]: " +
		""; !strings.HasPrefix(
		got, want) {
		t.Errorf("warnings: got %s, want %s…", got, want)
	}
}

// Sizes are stored in thousandths; a node can be chosen by whether it is schedulable.
func TestDefaultsAndFields(t *testing.T) {
	n := &v1.Node{Spec: v1.NodeSpec{Unschedulable: true}}
	n.Status.Capacity = v1.ResourceList{"cpu": resource.MustParse("1500u")}
	n.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("2500u")}
	k := Kinds(pods.Connections{})[0]
	k.Rules.Default(n)
	if a, b := n.Status.Capacity.Cpu().String(), n.Status.Allocatable.Cpu().String(); a != "2m" || b != "3m" {
		t.Errorf("got %s and %s, want 2m and 3m", a, b)
	}
	if got := k.Rules.Fields(n)["spec.unschedulable"]; got != "true" {
		t.Errorf("got %q, want true", got)
	}
}
