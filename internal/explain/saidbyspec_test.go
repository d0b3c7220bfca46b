package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/journal"
)

// What a program says last is held against the field of its Pod's spec that it is about: the rights
// of its programs, its process namespace, its token, its mounts, its seccomp profile. Where the
// spec says nothing of the kind nothing is blamed.
//
// row: RST-10
func TestWordsAreHeldAgainstTheSpec(t *testing.T) {
	yes, no, group, seconds, mode := true, false, int64(3000), int64(600), int32(0o440)
	both := corev1.MountPropagationBidirectional
	token := func(audience string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "t", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
					ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, Path: "token",
						ExpirationSeconds: &seconds}}}}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "t", MountPath: "/t"}}
		}
	}
	context := func(s corev1.SecurityContext) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = &s }
	}
	const projected = "spec.volumes[0].projected.sources[0].serviceAccountToken."
	for _, c := range []struct {
		name, words  string
		set          func(*corev1.Pod)
		field, value string
		text         string
	}{
		{"sudo", `sudo: The "no new privileges" flag is set, which prevents sudo from running as root.`,
			context(corev1.SecurityContext{AllowPrivilegeEscalation: &no}),
			"spec.containers[0].securityContext.allowPrivilegeEscalation", "false", "setuid"},
		{"su of busybox", "su: must be suid to work properly", context(corev1.SecurityContext{
			AllowPrivilegeEscalation: &no}), "spec.containers[0].securityContext.allowPrivilegeEscalation", "false",
			""},
		{"sudo that may", `sudo: effective uid is not 0`, nil, "", "", ""},
		{"an init", "s6-overlay-suexec: fatal: can only run as pid 1",
			func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = &yes }, "spec.shareProcessNamespace", "true",
			"process 1"},
		{"an init among the node's", "init must be run as PID 1", func(p *corev1.Pod) { p.Spec.HostPID = true },
			"spec.hostPID", "true", "node's"},
		{"an init of its own", "can only run as pid 1", nil, "", "", ""},
		{"another audience", `login: invalid audience (aud) claim`, token("vault"), projected + "audience", "vault",
			"for the audience vault only"},
		{"no audience of its own", `login: invalid audience (aud) claim`, token(""), "", "", ""},
		{"an old token", "request refused: token is expired", token(""), projected + "expirationSeconds", "600",
			"good for 600 s"},
		{"a mount of another container", "ls /mnt/x: transport endpoint is not connected", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/srv"}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/mnt"}}
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "mounter",
				VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/m", MountPropagation: &both}}})
		}, "spec.containers[0].volumeMounts[0].mountPropagation", "None", "Container mounter mounts"},
		{"a filtered call", "unshare: unshare failed: Operation not permitted", context(corev1.SecurityContext{
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}),
			"spec.containers[0].securityContext.seccompProfile.type", "RuntimeDefault", "system call unshare"},
		{"an unfiltered call", "unshare: unshare failed: Operation not permitted", context(corev1.SecurityContext{
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}), "", "", ""},
		{"another group", "open /keys/k: permission denied", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: "s", DefaultMode: &mode}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/keys"}}
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &group, RunAsGroup: &group}
		}, "spec.volumes[0].secret.defaultMode", "288", "group 3000 (spec.securityContext.runAsGroup)"},
	} {
		in := crashed(c.words)
		if c.set != nil {
			c.set(in.Pod)
		}
		f, a := blamed(in, "Restricted")
		if f.Severity != 0 {
			f.Field, f.Value = "", "" // notes of what it may be
		}
		if f.Field != c.field || f.Value != c.value || !strings.Contains(a.Cause, c.text) {
			t.Errorf("%s: got %s=%q, cause %q; want %s=%q and %q", c.name, f.Field, f.Value, a.Cause, c.field, c.value,
				c.text)
		}
		if c.field != "" && len(f.Remedies) == 0 {
			t.Errorf("%s: got no remedy", c.name)
		}
	}
}

// A kubelet's refusal is told of the field that it is about: groups, NUMA nodes, devices.
func TestRefusalsOfAKubeletNameTheField(t *testing.T) {
	strict := corev1.SupplementalGroupsPolicyStrict
	for _, c := range []struct{ reason, message, field, value, text string }{
		{"SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node",
			"spec.securityContext.supplementalGroupsPolicy", "Strict", "cannot leave out the groups of the image"},
		{"TopologyAffinityError", "Resources cannot be allocated with Topology locality",
			"spec.containers[0].resources.limits.cpu", "4", "topologyManagerPolicy"},
		{"UnexpectedAdmissionError", "Allocate failed due to requested number of devices unavailable for " +
			"example.com/gpu. " +
			"Requested: 2, Available: 1, which is unexpected", "spec.containers[0].resources.limits.example.com/gpu",
			"2",
			"device plugin"},
		{"UnexpectedAdmissionError", "something else", "status.reason", "UnexpectedAdmissionError", ""},
	} {
		in := base()
		in.Pod.Spec.NodeName = "n1"
		in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: &strict}
		in.app().Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("4"),
			"example.com/gpu": resource.MustParse("2")}
		in.Pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: c.reason, Message: c.message}
		f, a := blamed(in, c.reason)
		if f.Field != c.field || f.Value != c.value || !strings.Contains(a.Cause, c.text) {
			t.Errorf("%s: got %s=%q, cause %q; want %s=%q and %q", c.message, f.Field, f.Value, a.Cause, c.field,
				c.value,
				c.text)
		}
	}
}

// What a kubelet or runtime says of a variable's file and of users of its own names the field.
func TestFailuresNameTheFieldOfFilesAndUsers(t *testing.T) {
	in := base()
	in.app().Env = []corev1.EnvVar{{Name: "PORT", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{
		VolumeName: "v", Path: "env", Key: "port"}}}}
	in.state(waiting("CreateContainerConfigError", `environment variable key "port" not found in file`))
	if f, a := blamed(in, "FileKeyMissing"); f.Field != "spec.containers[0].env[0].valueFrom.fileKeyRef" ||
		f.Value != "port" || !strings.Contains(a.Cause, "an init container has to write it") {
		t.Errorf("got %s=%q and %q, want the variable's fileKeyRef", f.Field, f.Value, a.Cause)
	}
	no := false
	in = base()
	in.Pod.Spec.HostUsers = &no
	in.fact(time.Second, "kubelet", journal.Called{Method: "RunPodSandbox", Error: "runtime does not support user " +
		"namespaces"})
	if f, a := blamed(in, "OwnUsersFailed"); f.Field != "spec.hostUsers" || f.Value != "false" || len(a.Fixes) < 2 {
		t.Errorf("got %s=%q, %q and %d remedies, want spec.hostUsers", f.Field, f.Value, a.Cause, len(a.Fixes))
	}
}
