package explain

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// A volume over the directories of an image's programs hides them, also from a name that is looked
// for in PATH; one elsewhere does not.
//
// row: RST-10
func TestAVolumeHidesProgramsOfPath(t *testing.T) {
	for at, hides := range map[string]bool{"/bin": true, "/usr": true, "/usr/bin": true, "/usr/share": false,
		"/data": false} {
		in := base()
		in.Pod.Spec.Containers[0].Command = []string{"sh", "-c", "x"}
		in.Pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: at}}
		in.Pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		in.state(waiting("RunContainerError", `exec: "sh": executable file not found in $PATH`))
		a := Why(in)
		if got := strings.Contains(a.Cause, "Volume v is mounted at "+at+" and hides"); got != hides {
			t.Errorf("%s: got %q, want hidden %v", at, a.Cause, hides)
		}
		if len(a.Fixes) == 0 || strings.HasPrefix(a.Fixes[0].Description, "mount volume v elsewhere") != hides {
			t.Errorf("%s: got remedies %+v, want the mount moved: %v", at, a.Fixes, hides)
		}
	}
}

// An init container that waits for a file which only a container that starts after it can write
// waits for ever; not where another before it, or nobody after it, mounts the volume.
//
// row: RST-10
func TestAnInitContainerWaitsForAFileOfALaterContainer(t *testing.T) {
	mount := []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	for name, c := range map[string]struct {
		change func(*corev1.PodSpec)
		script string
		want   bool
	}{
		"later":         {nil, "until test -f /v/ready; do sleep 1; done", true},
		"brackets":      {nil, "while [ ! -e /v/ready ]; do sleep 1; done", true},
		"another file":  {nil, "until test -f /tmp/ready; do sleep 1; done", false},
		"nobody mounts": {func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts = nil }, "test -f /v/ready", false},
		"a ConfigMap's": {func(s *corev1.PodSpec) { s.Volumes[0].EmptyDir = nil }, "test -f /v/ready", false},
		"one before it": {before, "test -f /v/ready", false},
	} {
		in := base()
		in.Pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		in.Pod.Spec.InitContainers = []corev1.Container{{Name: "wait", Command: []string{"sh", "-c", c.script},
			VolumeMounts: mount}}
		in.Pod.Spec.Containers[0].VolumeMounts = mount
		in.Pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "wait", State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: at(0)}}}}
		if c.change != nil {
			c.change(&in.Pod.Spec)
		}
		a := Why(in)
		want := "waits for /v/ready of volume v, which beside it only app mounts"
		if got := strings.Contains(a.Cause, want); got != c.want {
			t.Errorf("%s: got %q, want the deadlock %v", name, a.Cause, c.want)
		}
		told := slices.ContainsFunc(a.Findings, func(f finding.Finding) bool {
			return f.Code == "InitOrder" && f.Severity == finding.Broken && f.Field == "spec.initContainers[0]" &&
				f.Value == "wait" && len(f.Remedies) > 0
		})
		if told != c.want {
			t.Errorf("%s: got findings %+v, want the init container blamed %v", name, a.Findings, c.want)
		}
	}
}

// before puts an init container that mounts the volume too before the others.
func before(s *corev1.PodSpec) {
	first := *s.InitContainers[0].DeepCopy()
	first.Name, first.Command = "fill", nil
	s.InitContainers = append([]corev1.Container{first}, s.InitContainers...)
}
