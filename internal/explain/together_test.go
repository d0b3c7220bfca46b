package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Several containers of a Pod that fail, each in its own way: the answer tells each cause as it
// would if that container were alone, and one remedy mends all.
func TestEachFailingContainerIsExplained(t *testing.T) {
	in := base()
	in.Pod.Spec.Containers = []corev1.Container{
		{Name: "web", Image: "registry.test/Web:1"},
		{Name: "api", Image: "registry.test/api:1", Env: []corev1.EnvVar{{Name: "TOKEN",
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Key: "apitoken"}}}}},
		{Name: "worker", Image: "registry.test/worker:1", Command: []string{"sleep 3600"}}}
	in.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "web", State: waiting("InvalidImageName", `Failed to apply default image tag "registry.test/Web:1": `+
			"couldn't parse image name: invalid reference format: repository name must be lowercase")},
		{Name: "api", State: waiting("CreateContainerConfigError", "couldn't find key apitoken in Secret shop/keys")},
		{Name: "worker", State: waiting("CrashLoopBackOff", "back-off 20s"), RestartCount: 2,
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 128,
				Reason: "StartError", StartedAt: at(-10 * time.Second), FinishedAt: at(-10 * time.Second),
				Message: `failed to create containerd task: exec: "sleep 3600": executable file not found in $PATH`}}}}
	in.NamespaceContext = &NamespaceContext{Secrets: map[string][]string{"keys": {"api-token"}}}
	a := Why(in)
	text := a.Cause
	for _, f := range a.also {
		text += "\n" + f.Message
	}
	for _, want := range []string{"registry.test/Web:1", "lower", "key apitoken of Secret keys",
		"only the key api-token", `"sleep 3600"`, "one word"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want %q in it", text, want)
		}
	}
	if len(a.Fixes) == 0 || !strings.Contains(a.Fixes[0].Description, "mend all of it") {
		t.Fatalf("got the remedies %+v, want first one that mends all", a.Fixes)
	}
	for _, want := range []string{"api-token", `["sleep","3600"]`, "registry.test/web:1"} {
		if got := strings.Join(a.Fixes[0].Run, "\n"); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
}
