package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A file that could not be written is explained by the mount or setting that makes it read-only,
// with a fix.
func TestReadOnlyFileSystemIsExplained(t *testing.T) {
	sealing, mount := true, corev1.VolumeMount{Name: "conf", MountPath: "/etc/app", ReadOnly: true}
	for failureText, want := range map[string][2]string{
		"sh: can't create /var/run/app.pid: Read-only file system": {
			"It cannot write /var/run/app.pid: readOnlyRootFilesystem is set", `"mountPath":"/var/run"`},
		"touch: /lock: Read-only file system": {
			"It cannot write /lock: readOnlyRootFilesystem is set", `"readOnlyRootFilesystem":null`},
		"open '/etc/app/x.conf': Read-only file system (os error 30)": {
			"volume conf is mounted read-only at /etc/app", `"readOnly":null`},
		"cannot write /etc/application.conf: Read-only file system at all": {"readOnlyRootFilesystem is set",
			`"mountPath":"/etc"`},
		"touch: /etc/app/tls/key: Read-only file system": {
			"volume certs at /etc/app/tls shows what the API server keeps", "copy what is needed from /etc/app/tls"},
		"read-only is what I like": {"ends", "logs app"},
	} {
		in := base()
		in.app().SecurityContext, in.app().VolumeMounts = &corev1.SecurityContext{ReadOnlyRootFilesystem: &sealing},
			[]corev1.VolumeMount{mount, {Name: "certs", MountPath: "/etc/app/tls"}}
		in.Pod.Spec.Volumes = []corev1.Volume{
			{Name: "certs", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}}}}
		in.state(waiting("CrashLoopBackOff", "")).LastTerminationState.Terminated = ended0(1, "Error")
		in.LastLogs = map[string]string{"app": failureText}
		a := Why(in)
		if !strings.Contains(a.Cause, want[0]) ||
			!strings.Contains(strings.Join(a.Fixes[0].Run, " ")+a.Fixes[0].Description, want[1]) &&
				failureText != "read-only is what I like" {
			t.Errorf("%s: %s; first %+v", failureText, a.Cause, a.Fixes[0])
		}
	}
}

// A container's last log lines are in the answer, and a missing variable can be set.
func TestLastLogLinesAreInTheAnswer(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "x"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", RestartCount: 2,
			State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 78,
				Reason: "Error"}},
		}}}}
	pod.Name, pod.Namespace = "app", "default"
	if previous, ok := ContainersToRead(pod)["app"]; !ok || !previous {
		t.Errorf("the run before is the one that failed: %v %v", previous, ok)
	}
	for failureText, variable := range map[string]string{
		"fatal: TOKEN is not set": "TOKEN", "DATABASE_URL must be set": "DATABASE_URL",
		`environment variable "API_KEY" is required`: "API_KEY", "cannot open file": "",
	} {
		a := crashLoop(In{Pod: pod, LastLogs: map[string]string{"app": failureText + "\n"}})
		if a == nil || !strings.Contains(strings.Join(a.Facts, "\n"), "it said: "+failureText) {
			t.Fatalf("%q is not in the answer: %+v", failureText, a)
		}
		if variable != "" && !strings.Contains(strings.Join(a.Fixes[0].Run, " "), `"name":"`+variable+`"`) {
			t.Errorf("%q: no fix sets %s: %+v", failureText, variable, a.Fixes)
		}
		if variable == "" && strings.Contains(a.Cause, "is wanted") {
			t.Errorf("%q names no variable: %s", failureText, a.Cause)
		}
	}
}
