package explain

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// A quota that requires amounts gets a command that sets them.
func TestQuotaNeedsRequestsAndLimitsStated(t *testing.T) {
	d := &appsv1.Deployment{
		Spec: appsv1.DeploymentSpec{
			Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}, {Name: "side"}},
					InitContainers: []corev1.Container{{Name: "first"}}}}}}
	s := Subject{Kind: "deployment", Namespace: "shop", Name: "web", Object: d}
	const head = `pods "web-1" is forbidden: failed quota: lean: `
	for message, want := range map[string]string{
		head + "must specify limits.memory for: " +
			"app": `-p '{"spec":{"template":{"spec":{"containers":[{"name":"app",` +
			`"resources":{"limits":{"memory":"128Mi"}}}]}}}}'`,
		head + "must specify limits.memory for: app,side; requests.cpu for: " +
			"first": `"containers":[{"name":"app","resources":{"limits":{"memory":"128Mi"}}},{"name":"side",` +
			`"resources":{"limits":{"memory":"128Mi"}}}],"initContainers":[{"name":"first",` +
			`"resources":{"requests":{"cpu":"100m"}}}]`,
		head + "must specify cpu for: app":                      `"resources":{"requests":{"cpu":"100m"}}`,
		head + "must specify requests.example.com/gpu for: app": "",
		"something else for: app":                               "",
	} {
		fixes := s.unstated(message)
		switch {
		case want == "" && len(fixes) == 0:
		case want == "" || len(fixes) != 1 || !strings.HasPrefix(fixes[0].Run[0],
			"kubectl -n shop patch deployment web --type=strategic") || !strings.Contains(fixes[0].Run[0], want):
			t.Errorf("%s:\n%+v, want %s", message, fixes, want)
		}
	}
}
