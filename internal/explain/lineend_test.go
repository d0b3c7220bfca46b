package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// A variable whose value ends with a newline is blamed with its key; values of several lines, and
// those without a newline, are not.
func TestAValueThatEndsWithANewlineIsBlamed(t *testing.T) {
	named := func(s string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: s} }
	for _, c := range []struct {
		name, value string
		env         corev1.EnvVar
		from        []corev1.EnvFromSource
		field       string // empty: nothing is blamed
	}{
		{"Secret", finding.OneLine, corev1.EnvVar{Name: "T", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("s"), Key: "k"}}}, nil,
			"spec.containers[0].env[0].valueFrom"},
		{"ConfigMap", "a\n", corev1.EnvVar{Name: "T", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("s"), Key: "k"}}}, nil,
			"spec.containers[0].env[0].valueFrom"},
		{"all of a ConfigMap", "a\n", corev1.EnvVar{Name: "T", Value: "x"}, []corev1.EnvFromSource{{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("s")}}},
			"spec.containers[0].envFrom[0]"},
		{"several lines", "a\nb\n", corev1.EnvVar{Name: "T", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("s"), Key: "k"}}}, nil, ""},
		{"no newline", "a", corev1.EnvVar{Name: "T", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("s"), Key: "k"}}}, nil, ""},
	} {
		in := base()
		at := metav1.ObjectMeta{Namespace: in.Ref.Namespace, Name: "s"}
		objects := &finding.Cluster{}
		objects.Add("Secret", &corev1.Secret{ObjectMeta: at, Data: map[string][]byte{"k": []byte(c.value)}})
		objects.Add("ConfigMap", &corev1.ConfigMap{ObjectMeta: at, Data: map[string]string{"k": c.value}})
		in.Objects = objects
		x := container{spec: &corev1.Container{Name: "app", Env: []corev1.EnvVar{c.env}, EnvFrom: c.from}}
		r, ok := lineEndIn(in, x, "spec.containers[0]")
		if ok != (c.field != "") || r.field != c.field {
			t.Errorf("%s: got field %q, want %q", c.name, r.field, c.field)
			continue
		}
		if ok && !strings.Contains(r.fixes[0].Run[0], "tr -d '\\n'") {
			t.Errorf("%s: got the command %q, want one that takes the newline off", c.name, r.fixes[0].Run[0])
		}
	}
}
