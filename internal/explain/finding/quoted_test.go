package finding

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A text that quotes a field's content names that field: the one that says most, with its content.
func TestQuotedContentNamesItsField(t *testing.T) {
	spec := corev1.PodSpec{NodeName: "node-7", Containers: []corev1.Container{{Name: "app", Image: "shop/app:1",
		Command: []string{"/bin/serve", "--quick"}, WorkingDir: "/srv",
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data/x", SubPath: "config"}}}},
		SecurityContext: &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.core.somaxconn",
			Value: "9000"}}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{
				Path: "/var/lib/thing"}}}},
		NodeSelector: map[string]string{"example.com/disk": "quick"}}
	for _, c := range []struct{ text, field, content string }{
		{`exec: "/bin/serve": stat /bin/serve: no such file`, "spec.containers[0].command[0]", "/bin/serve"},
		{`hostPath type check failed: /var/lib/thing is not a directory`, "spec.volumes[0].hostPath.path",
			"/var/lib/thing"},
		{`forbidden sysctl: "net.core.somaxconn" not allowlisted`, "spec.securityContext.sysctls[0].name",
			"net.core.somaxconn"},
		{`failed to prepare subPath for volumeMount "data": config`, "spec.containers[0].volumeMounts[0].subPath",
			"config"},
		{`mkdir /srv: read-only file system`, "spec.containers[0].workingDir", "/srv"},
		{`no label quick there`, "spec.nodeSelector[example.com/disk]", "quick"},
		{`container app of image shop/app:1`, "spec.containers[0].name", "app"},
		{`nothing of all that: application`, "", ""},
	} {
		field, content, ok := Quoted(spec, "spec", c.text)
		if field != c.field || content != c.content || ok != (c.field != "") {
			t.Errorf("%s: got %s=%q, want %s=%q", c.text, field, content, c.field, c.content)
		}
	}
}

// The numbers of a sentence are data, by the word before each; what is told already, and digits
// within names, are not.
func TestNumbersOfASentence(t *testing.T) {
	for _, c := range []struct {
		text string
		have map[string]string
		want map[string]string
	}{
		{"node-1 is 500m short of cpu (1.5 free of 8).", map[string]string{"cpu.short": "500m"},
			map[string]string{"cpu.short": "500m", "cpu": "1.5", "free": "8"}},
		{"asks port 8080 and gets statuscode: 503", nil, map[string]string{"port": "8080", "statuscode": "503"}},
		{"It failed 3 times, 1m30s ago, at 80%.", nil, map[string]string{"failed": "3", "times": "1m30s", "at": "80%"}},
		{"port 80 or port 81", nil, map[string]string{"port": "80", "port.2": "81"}},
		{"Pod web-0 on node2", nil, nil},
	} {
		f := Finding{Message: c.text, Numbers: c.have}
		if f.withNumbers(); !maps.Equal(f.Numbers, c.want) {
			t.Errorf("%s: got %v, want %v", c.text, f.Numbers, c.want)
		}
	}
}
