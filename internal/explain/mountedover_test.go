package explain

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A file that is mounted over a directory of the image, and a directory over a file, are told by
// mount, with the mount that works.
func TestAMountOverSomethingElse(t *testing.T) {
	for _, x := range []struct {
		mount       corev1.VolumeMount
		words       string
		field, text string
		run         string
	}{
		{corev1.VolumeMount{Name: "v", MountPath: "/etc/", SubPath: "conf/app.conf"}, "not a directory",
			"spec.containers[0].volumeMounts[0].mountPath", "/etc/ is a directory of the image",
			`"mountPath":"/etc/app.conf"`},
		{corev1.VolumeMount{Name: "v", MountPath: "/etc/passwd"}, "Are you trying to mount a directory onto a " +
			"file (or vice-versa)?", "spec.containers[0].volumeMounts[0].mountPath", "Volume v is a directory",
			`"subPath":"passwd"`},
		{corev1.VolumeMount{Name: "v", MountPath: "/srv"}, "not a directory", "", "", ""},
	} {
		in := base()
		in.Pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{x.mount}
		in.Pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		at := strings.TrimSuffix(x.mount.MountPath, "/")
		if x.field == "" {
			at = "/elsewhere"
		}
		s := in.state(waiting("CrashLoopBackOff", "back-off"))
		s.RestartCount, s.LastTerminationState.Terminated = 3, ended0(128, "StartError")
		s.LastTerminationState.Terminated.Message = fmt.Sprintf(`failed to create containerd task: failed to `+
			`create shim `+
			`task: OCI runtime create failed: runc create failed: unable to start container process: error during `+
			`container init: error mounting "/var/lib/x/0" to rootfs at %q: mount src=/x, dst=%s, flags=MS_BIND: `+
			`%s`, at,
			at, x.words)
		a := Why(in)
		run := ""
		if len(a.Fixes) > 0 {
			run = strings.Join(a.Fixes[0].Run, " ")
		}
		found := false
		for _, f := range a.Findings {
			found = found || f.Field == x.field
		}
		if !strings.Contains(a.Cause, x.text) || !strings.Contains(run, x.run) || x.field != "" && !found {
			t.Errorf("%s: got %q, %q, %+v, want %s, %q, %q", x.mount.MountPath, a.Cause, run, a.Findings,
				x.field, x.text,
				x.run)
		}
	}
}

// What a program was not permitted is told by the one capability that it needs, and that alone is
// given back.
func TestTheCapabilityThatIsMissing(t *testing.T) {
	for words, want := range map[string]string{
		"chown: /data: Operation not permitted":         `{"add":["CHOWN"]`,
		"ping: permission denied (not permitted)":       `{"add":["NET_RAW"]`,
		"mount: /mnt: Operation not permitted":          `{"add":["SYS_ADMIN"]`,
		"su: can't set groups: Operation not permitted": `{"add":["SET`,
		"frob: Operation not permitted":                 `"capabilities":{"drop":null}`,
	} {
		in := base()
		in.Pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{
			Drop: []corev1.Capability{"ALL"}}}
		s := in.state(waiting("CrashLoopBackOff", ""))
		s.RestartCount, s.LastTerminationState.Terminated = 2, ended0(1, "Error")
		in.LastLogs = map[string]string{"app": words}
		a := Why(in)
		if len(a.Fixes) == 0 || !strings.Contains(strings.Join(a.Fixes[0].Run, ""), want) {
			t.Errorf("%s: got %+v, want %s first", words, a.Fixes, want)
		}
	}
}
