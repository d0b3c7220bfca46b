package typed

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestGoFieldsPrintAsUpstreamsInternalTypes: what a field error prints of a struct.
func TestGoFieldsPrintAsUpstreamsInternalTypes(t *testing.T) {
	one := intstr.FromInt32(1)
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"unset fields are printed": {appsv1.StatefulSetUpdateStrategy{Type: "Odd"},
			`{"Type":"Odd","RollingUpdate":null}`},
		"structs below pointers": {&corev1.SecurityContext{Capabilities: &corev1.Capabilities{
			Add: []corev1.Capability{"A"}}}, `"Capabilities":{"Add":["A"],"Drop":null},`},
		"structs in slices": {corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: "BestEffort", Operator: "Exists"}}},
			`{"MatchExpressions":[{"ScopeName":"BestEffort","Operator":"Exists","Values":null}]}`},
		"a slice of structs": {[]corev1.PodIP{{IP: "10.0.0.1"}}, `[{"IP":"10.0.0.1"}]`},
		"no slice":           {[]corev1.PodIP(nil), `null`},
		"types of meta/v1 and IntOrString by JSON": {policyv1.PodDisruptionBudgetSpec{MinAvailable: &one,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
			`{"MinAvailable":1,"Selector":{"matchLabels":{"a":"b"}},"MaxUnavailable":null,` +
				`"UnhealthyPodEvictionPolicy":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := field.Invalid(field.NewPath("spec"), GoFields(c.value), "no").Error()
			if !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s in it", got, c.want)
			}
		})
	}
}
