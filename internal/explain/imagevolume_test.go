package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A container that waits for the image of a volume is not said to lack its own.
func TestTheImageOfAVolumeIsNotTheContainersOwn(t *testing.T) {
	for words, want := range map[string]struct{ field, value string }{
		`Container image "data:1" is not present with pull policy of Never`: {
			"spec.volumes[0].image.pullPolicy", "Never"},
		`Container image "app:1" is not present with pull policy of Never`: {"spec.containers[0].image", "app:1"},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Image: "app:1", VolumeMounts: []corev1.VolumeMount{{
				Name: "v", MountPath: "/v"}}}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{
				Reference: "data:1", PullPolicy: corev1.PullNever}}}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "app",
				State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull", Message: words}}}}}}
		in := In{Pod: p}
		got := containerFindings(in)
		if len(got) != 1 || got[0].Field != want.field || got[0].Value != want.value {
			t.Errorf("%s: got %+v, want one of %s=%s", words, got, want.field, want.value)
		}
		if a := imagePullFailed(in); a == nil || !strings.Contains(a.Cause, want.value) {
			t.Errorf("%s: got the answer %+v, want it to tell %s", words, a, want.value)
		}
	}
}
