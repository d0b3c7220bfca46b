package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// withScript lets the Pod run /scripts/run.sh, the key of a ConfigMap with this text, from a volume
// of this mode.
func withScript(in *In, text string, mode int32) {
	in.Pod.Spec.Containers[0].Command = []string{"/scripts/run.sh"}
	in.Pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "s", MountPath: "/scripts"}}
	in.Pod.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "scripts"},
			DefaultMode: &mode}}}}
	in.Objects = &finding.Cluster{Now: in.Now, Namespace: "shop"}
	in.Objects.Add("ConfigMap", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "scripts"},
		Data: map[string]string{"run.sh": text}})
}

// A program that a volume shows of a ConfigMap is not run for its mode, its first line, or the
// interpreter that this names; a volume that shows it hides nothing, and it is not missed.
//
// row: RST-10
func TestAProgramOfAVolume(t *testing.T) {
	const denied = `exec: "/scripts/run.sh": permission denied`
	for _, c := range []struct {
		name, text, said string // said: the last log line; empty: the runtime's words
		mode             int32
		words            string
		want, not        []string
	}{
		{"no bit to run it", "#!/bin/sh\n", "", 0o644, denied, []string{"mode 0644", "defaultMode 0755",
			`"defaultMode":493`},
			[]string{"hides"}},
		{"interpreter that is not there", "#!/bin/bash -e\ntrue\n", "exec /scripts/run.sh: no such file or directory",
			0o755, "", []string{"/bin/bash", "key run.sh of ConfigMap scripts", `"command":["sh","/scripts/run.sh"]`},
			[]string{"has no such file", "hides"}},
		{"lines of Windows", "#!/bin/sh\r\ntrue\r\n", "exec /scripts/run.sh: no such file or directory", 0o755, "",
			[]string{"CR LF", "patch configmap scripts", `#!/bin/sh\ntrue\n`}, []string{"has no such file", "is " +
				"not in"}},
		{"no first line", "sleep 5\n", "exec /scripts/run.sh: exec format error", 0o755, "",
			[]string{"does not name its interpreter", "ConfigMap scripts", "patch configmap scripts"},
			[]string{"processor"}},
		{"a program without its loader", "\x7fELF", "", 0o755,
			`exec: "/scripts/run.sh": no such file or directory`, []string{"/scripts/run.sh"}, []string{"hides"}},
		{"another file of it", "#!/bin/sh\n", "cat: can't open '/scripts/other.sh': No such file or directory",
			0o755, "",
			[]string{"has no such file"}, nil},
		{"a file that it has", "#!/bin/sh\n", "grep: /scripts/run.sh: not found in pattern", 0o755, "", nil,
			[]string{"has no such file"}},
	} {
		in := base()
		withScript(&in, c.text, c.mode)
		if c.words != "" {
			in.state(waiting("RunContainerError", c.words))
		} else {
			s := in.state(waiting("CrashLoopBackOff", "back-off"))
			s.RestartCount = 3
			s.LastTerminationState.Terminated = ended0(255, "Error")
			in.LastLogs = map[string]string{"app": c.said}
		}
		a := Why(in)
		text := a.Cause
		for _, f := range a.Fixes {
			text += "\n" + f.Description + strings.Join(f.Run, "\n")
		}
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: got %q, want %q in it", c.name, text, w)
			}
		}
		for _, w := range c.not {
			if strings.Contains(text, w) {
				t.Errorf("%s: got %q, want no %q in it", c.name, text, w)
			}
		}
		if len(a.also) > 0 && c.words != "" {
			t.Errorf("%s: got also %+v, want the cause told once", c.name, a.also)
		}
	}
}

// Files of projected volumes, of items with paths and modes, and of objects that were not read.
func TestFilesOfVolumes(t *testing.T) {
	mode := int32(0o500)
	c := &finding.Cluster{}
	c.Add("ConfigMap", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m"},
		Data: map[string]string{"a": "text", "b": ""}})
	local := corev1.LocalObjectReference{Name: "m"}
	items := []corev1.KeyToPath{{Key: "a", Path: "d/x", Mode: &mode}}
	for name, x := range map[string]struct {
		v            corev1.VolumeSource
		at           string
		there, known bool
		mode         int32
	}{
		"all keys": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local}}, "a",
			true,
			true, 0o644},
		"items": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local,
			Items: items}}, "d/x", true, true, 0o500},
		"not among items": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local,
			Items: items}}, "b", false, true, 0},
		"projected": {corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local, Items: items}}}}}, "d/x",
			true, true, 0o500},
		"with a token": {corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}},
		}}, "t", false, false, 0},
		"a Secret that was not read": {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}, "a",
			false,
			false, 0},
		"an emptyDir": {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, "a", false, false, 0},
	} {
		f, there, known := c.FileAt(&corev1.Volume{VolumeSource: x.v}, "shop", x.at)
		if there != x.there || known != x.known || f.Mode != x.mode {
			t.Errorf("%s: got there %v, known %v, mode %o, want %v, %v, %o", name, there, known, f.Mode, x.there,
				x.known,
				x.mode)
		}
	}
}
