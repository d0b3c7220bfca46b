package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// A ConfigMap or Secret that was changed shortly before a container first failed is told beside the
// crash, and blamed where the container's last lines name the key, its variable or its value.
func TestAChangeBeforeTheFailureIsReported(t *testing.T) {
	made := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		name      string
		changed   time.Duration // after it was made; 0: never
		failed    time.Duration
		words     string
		secret    bool
		container corev1.Container
		want      string // the finding's severity, field and value; empty: none
	}{
		{"named by its value", time.Hour, time.Hour + time.Minute, "unknown mode turbo", false, fromKey("mode"),
			"broken data.mode=turbo"},
		{"named by its key", time.Hour, time.Hour + time.Minute, "bad mode", false, fromKey("mode"),
			"broken data.mode=turbo"},
		{"named by its variable", time.Hour, time.Hour + time.Minute, "SPEED is not a number", false, fromKey("mode"),
			"broken data.mode=turbo"},
		{"named as part of a word", time.Hour, time.Hour + time.Minute, "turbojet outmoded", false, fromKey("mode"),
			"note data.mode=mode"},
		{"of a Secret no value is told", time.Hour, time.Hour + time.Minute, "bad mode", true, fromSecret(),
			"broken data.mode=mode"},
		{"a key that is not used", time.Hour, time.Hour + time.Minute, "bad mode", false, fromKey("other"), ""},
		{"long before", time.Hour, 3 * time.Hour, "bad mode", false, fromKey("mode"), ""},
		{"after the failure", time.Hour, time.Minute, "bad mode", false, fromKey("mode"), ""},
		{"never", 0, time.Minute, "bad mode", false, fromKey("mode"), ""},
	} {
		meta := metav1.ObjectMeta{Namespace: "team", Name: "settings", CreationTimestamp: metav1.NewTime(made)}
		at := metav1.NewTime(made.Add(x.changed))
		meta.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl-edit", Time: &at,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:mode":{}}}`)}}}
		objects := &finding.Cluster{Namespace: "team"}
		objects.Add("ConfigMap", &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"mode": "turbo"}})
		objects.Add("Secret", &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"mode": nil}})
		end := &corev1.ContainerStateTerminated{ExitCode: 1, Message: x.words,
			FinishedAt: metav1.NewTime(made.Add(x.failed))}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{x.container}}}
		in := In{Now: made.Add(4 * time.Hour), Pod: p, Objects: objects}
		got := ""
		for _, f := range changedFindings(in, container{spec: &p.Spec.Containers[0]}, end) {
			text, _ := f.Severity.MarshalText()
			got += string(text) + " " + f.Field + "=" + f.Value
			if !strings.Contains(f.Message, "kubectl-edit") ||
				!strings.Contains(f.Message, "11:00:00 UTC, 1m0s before") {
				t.Errorf("%s: got %q, want who changed it, when, and how long before", x.name, f.Message)
			}
		}
		if got != x.want {
			t.Errorf("%s: got %q, want %q", x.name, got, x.want)
		}
	}
}

// fromKey is a container with a variable from a key of the ConfigMap settings.
func fromKey(key string) corev1.Container {
	return corev1.Container{Name: "app", Env: []corev1.EnvVar{{Name: "SPEED", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: key,
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}}}
}

// fromSecret is a container with all keys of the Secret settings.
func fromSecret() corev1.Container {
	return corev1.Container{Name: "app", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}}
}
