package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// The last output of a program is held against what its own Pod forbids it: the field that does so
// is blamed, with what mends it.
//
// row: RST-10
func TestAProgramIsHeldAgainstItsRestrictions(t *testing.T) {
	yes, no, uid, mode, one := true, false, int64(1000), int32(0o400), resource.MustParse("1Mi")
	mount := func(p *corev1.Pod, at string, readOnly bool, source corev1.VolumeSource) {
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: at, ReadOnly: readOnly}}
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
	}
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	for _, c := range []struct {
		name, words        string
		set                func(*corev1.Pod)
		field, value, want string
	}{
		{"read-only mount", "open /data/x.log: read-only file system", func(p *corev1.Pod) {
			mount(p, "/data", true, empty)
		}, "spec.containers[0].volumeMounts[0].readOnly", "true", "false"},
		{"read-only root", "cannot create /tmp/x: Read-only file system", func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: &yes}
		}, "spec.containers[0].securityContext.readOnlyRootFilesystem", "true", "false"},
		{"mode of a Secret", "open /keys/tls.key: permission denied", func(p *corev1.Pod) {
			mount(p, "/keys", true, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{DefaultMode: &mode}})
		}, "spec.volumes[0].secret.defaultMode", "256", "420"},
		{"no group", "mkdir /data/db: permission denied", func(p *corev1.Pod) {
			mount(p, "/data", false, empty)
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &uid}
		}, "spec.securityContext.fsGroup", "", "1000"},
		{"port below 1024", "listen tcp :80: bind: permission denied", func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &uid}
		}, "spec.containers[0].securityContext.runAsUser", "1000", ""},
		{"capability", "chown: operation not permitted", func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{
				Drop: []corev1.Capability{"ALL"}}}
		}, "spec.containers[0].securityContext.capabilities.drop", "ALL", ""},
		{"a variable that is a label", "fatal: TIER is empty", func(p *corev1.Pod) {
			p.Labels = map[string]string{"teir": "front"}
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "TIER", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['tier']"}}}}
		}, "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "metadata.labels['tier']",
			"metadata.labels['teir']"},
		{"a variable without a value", "error: TIER must be set", func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "TIER"}}
		}, "spec.containers[0].env[0].value", "", ""},
		{"no token", "open " + tokenPath + "/token: no such file or directory", func(p *corev1.Pod) {
			p.Spec.AutomountServiceAccountToken = &no
		}, "spec.automountServiceAccountToken", "false", "true"},
		{"mounted elsewhere", "open /etc/config/app.yaml: no such file or directory", func(p *corev1.Pod) {
			mount(p, "/etc/confg", false, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}})
		}, "spec.containers[0].volumeMounts[0].mountPath", "/etc/confg", "/etc/config"},
		{"full", "write /cache/x: no space left on device", func(p *corev1.Pod) {
			mount(p, "/cache", false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &one}})
		}, "spec.volumes[0].emptyDir.sizeLimit", "1Mi", "2Mi"},
		{"a claim is full", "dd: error writing '/data/x': No space left on device", func(p *corev1.Pod) {
			mount(p, "/data", false, corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})
		}, "spec.resources.requests.storage", "50Mi", "100Mi"},
		{"a file without a mode to run", "sh: /app/run.sh: Permission denied", func(p *corev1.Pod) {
			mount(p, "/app", false, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}})
		}, "spec.volumes[0].configMap.defaultMode", "420", "493"},
		{"shared memory", "dd: error writing '/dev/shm/x': No space left on device", nil,
			"spec.containers[0].volumeMounts", "", "/dev/shm"},
		{"no shared memory", "dd: error writing '/dev/shmem/x': No space left on device", nil, "", "", ""},
		{"directory of the node", "sh: can't create /d/x: Permission denied", func(p *corev1.Pod) {
			mount(p, "/d", false, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/d"}})
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &uid, FSGroup: &uid}
		}, "spec.securityContext.runAsUser", "1000", ""},
		{"variable of a Service", "sh: tcp://10.9.8.7:6379: bad number", nil, "spec.enableServiceLinks", "true",
			"false"},
		{"no variable of a Service", "sh: tcp://10.9.8.6:6379: bad number", nil, "", "", ""},
		{"a Service that is not reached", "dial tcp://10.9.8.7:6379: connection refused", nil, "", "", ""},
		{"links that are off", "sh: tcp://10.9.8.7:6379: bad number", func(p *corev1.Pod) {
			p.Spec.EnableServiceLinks = &no
		}, "", "", ""},
		{"a variable of its own", "sh: tcp://10.9.8.7:6379: bad number", func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MY_REDIS_PORT", Value: "tcp://10.9.8.7:6379"}}
		}, "", "", ""},
		{"nothing of it", "panic: oh no", nil, "", "", ""},
	} {
		in := base()
		size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("50Mi")}
		in.Objects = &finding.Cluster{Now: in.Now, Namespace: "shop"}
		in.Objects.Add("PersistentVolumeClaim", &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv",
			Resources: corev1.VolumeResourceRequirements{Requests: size}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size}})
		in.NamespaceContext = &NamespaceContext{Services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "my-redis"}, Spec: corev1.ServiceSpec{ClusterIP: "10.9.8.7"}}}}
		in.state(waiting("CrashLoopBackOff", "")).LastTerminationState.Terminated = ended0(1, "Error")
		in.Pod.Status.ContainerStatuses[0].RestartCount = 2
		if c.set != nil {
			c.set(in.Pod)
		}
		in.LastLogs = map[string]string{"app": "starting\n" + c.words}
		got := finding.Finding{}
		a := Why(in)
		for _, f := range a.Findings {
			if f.Code == "Restricted" && f.Severity == finding.Broken {
				got = f
			}
		}
		if got.Field != c.field || got.Value != c.value || got.Want != c.want {
			t.Errorf("%s: got %s=%q want %q, want %s=%q want %q", c.name, got.Field, got.Value, got.Want, c.field,
				c.value,
				c.want)
		}
		if c.field != "" && len(got.Remedies) == 0 {
			t.Errorf("%s: got no remedy", c.name)
		}
	}
}

// A container that failed once and has run well since, and what a Pod's orderly end brings with it,
// are not broken.
func TestPastFailuresAndOrderlyEndsAreNotBroken(t *testing.T) {
	once := base()
	once.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s := once.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-50 * time.Second)}})
	s.Ready, s.RestartCount, s.LastTerminationState.Terminated = true, 1, ended0(1, "Error")
	ending := base()
	deleted, grace := at(10*time.Second), int64(30)
	ending.Pod.DeletionTimestamp, ending.Pod.DeletionGracePeriodSeconds = &deleted, &grace
	ending.state(corev1.ContainerState{Terminated: ended0(143, "Error")})
	for name, in := range map[string]In{"failed once": once, "ends": ending} {
		a := Why(in)
		if hasBroken(a.Findings) || strings.Contains(a.State, "broken") || a.State == "restarting" {
			t.Errorf("%s: got %s: %s %+v, want nothing broken", name, a.State, a.Cause, a.Findings)
		}
	}
	again := once
	again.Pod = once.Pod.DeepCopy()
	again.Pod.Status.ContainerStatuses[0].RestartCount = 4
	late := ending
	late.Now = t0.Add(time.Hour)
	for name, in := range map[string]In{"failed again and again": again, "ends too late": late} {
		if a := Why(in); !hasBroken(a.Findings) {
			t.Errorf("%s: got %s: %s %+v, want something broken", name, a.State, a.Cause, a.Findings)
		}
	}
}
