package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// A failed HTTP probe blames the header by which its server chose the answer: the host, the login
// or
// the form; a status that the path explains as well stays the path's.
func TestTheHeaderOfAProbeIsBlamedByItsAnswer(t *testing.T) {
	for _, c := range []struct {
		name, words  string
		headers      []corev1.HTTPHeader
		hosts        []string // of Ingresses that lead to the Pod
		field, value string
		want, text   string
	}{
		{"misdirected", "HTTP probe failed with statuscode: 421", []corev1.HTTPHeader{{Name: "X", Value: "1"},
			{Name: "host", Value: "old.shop.test"}}, nil, ".httpGet.httpHeaders[1].value", "old.shop.test", "",
			"a name that is not its own"},
		{"near a served name", "HTTP probe failed with statuscode: 404", []corev1.HTTPHeader{{Name: "Host",
			Value: "shpo.test.org"}}, []string{"mail.test.org", "shop.test.org"}, ".httpGet.httpHeaders[0].value",
			"shpo.test.org", "shop.test.org", "mail.test.org and shop.test.org"},
		{"no host sent", "HTTP probe failed with statuscode: 400", nil, []string{"shop.test.org"},
			".httpGet.httpHeaders", "", "shop.test.org", "asks by the Pod's address"},
		{"login", "HTTP probe failed with statuscode: 401", nil, nil, ".httpGet.httpHeaders", "", "",
			"sends no header Authorization"},
		{"a refused login is not told", "HTTP probe failed with statuscode: 401", []corev1.HTTPHeader{
			{Name: "Authorization", Value: "Bearer s3cret"}}, nil, ".httpGet.httpHeaders[0].value", "set", "",
			"refuses"},
		{"form", "HTTP probe failed with statuscode: 406", []corev1.HTTPHeader{{Name: "Accept", Value: "text/x"}}, nil,
			".httpGet.httpHeaders[0].value", "text/x", "", "Accept: text/x"},
		{"path", "HTTP probe failed with statuscode: 404", nil, []string{"shop.test.org"}, ".httpGet.path", "/",
			"", ""},
		{"served name", "HTTP probe failed with statuscode: 404", []corev1.HTTPHeader{{Name: "Host",
			Value: "shop.test.org:8080"}}, []string{"shop.test.org"}, ".httpGet.path", "/", "", ""},
		{"server's own fault", "HTTP probe failed with statuscode: 500", nil, nil, ".httpGet.path", "/", "", ""},
	} {
		in := base()
		in.Pod.Labels = map[string]string{"app": "web"}
		p := &corev1.Probe{}
		p.HTTPGet = &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080), HTTPHeaders: c.headers}
		in.Pod.Spec.Containers[0].ReadinessProbe = p
		in.Objects = &finding.Cluster{Namespace: "shop"}
		s := &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
		s.Namespace, s.Name = "shop", "web"
		in.Objects.Add("Service", s)
		x := &networkingv1.Ingress{}
		x.Namespace, x.Name = "shop", "x"
		for _, h := range c.hosts {
			x.Spec.Rules = append(x.Spec.Rules, networkingv1.IngressRule{Host: h, IngressRuleValue: networkingv1.
				IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web"}}}}}}})
		}
		in.Objects.Add("Ingress", x)
		d := diagnoseProbe(in, &in.Pod.Spec.Containers[0], journal.Probed{Container: "app", Probe: "readiness",
			Message: c.words})
		field, value, want := probeField(&in.Pod.Spec.Containers[0], p, c.words, d)
		if field != c.field || value != c.value || want != c.want || !strings.Contains(d.text, c.text) ||
			strings.Contains(d.text, "s3cret") {
			t.Errorf("%s: got %s=%s want %q: %s; want %s=%s want %q: …%s", c.name, field, value, want, d.text, c.field,
				c.value, c.want, c.text)
		}
	}
}

// A container that was restarted for its new size is no crash, whatever its exit code and however
// often it was restarted; one that ended by itself is not called resized.
func TestARestartForAResizeIsNoCrash(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause string
		code  int32
		ready bool
		want  bool
	}{
		{"ended well", "resize", 0, true, true},
		{"killed after its grace", "resize", 137, true, true},
		{"not ready yet", "resize", 143, false, true},
		{"a crash", "", 1, false, false},
		{"a probe", "liveness probe failed", 137, false, false},
	} {
		in := base()
		in.Pod.Status.Phase = corev1.PodRunning
		in.Pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu",
			RestartPolicy: corev1.NotRequired}, {ResourceName: "memory", RestartPolicy: corev1.RestartContainer}}
		s := in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-5 * time.Second)}})
		s.RestartCount, s.Ready = 1, c.ready
		s.LastTerminationState.Terminated = ended0(c.code, "Error")
		if c.ready {
			in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		if c.cause != "" {
			in.fact(11*time.Second, "kubelet", journal.Killing{Container: "app", Cause: c.cause})
		}
		a := Why(in)
		got := strings.Contains(a.Cause, "resizePolicy for memory is RestartContainer "+
			"(spec.containers[0].resizePolicy[1].restartPolicy)")
		if got != c.want || c.want && strings.Contains(a.Cause, "crash") {
			t.Errorf("%s: got %s: %q, want the resize told: %v", c.name, a.State, a.Cause, c.want)
		}
	}
}

// A mount that fails for an option of the PersistentVolume blames that option, with the command
// that
// takes it out; what fails for another reason does not.
func TestAMountOptionIsBlamedByTheWordsAboutIt(t *testing.T) {
	for _, c := range []struct {
		name, words, annotation string
		options                 []string
		field, value            string
	}{
		{"type takes none", "MountVolume.MountOptionSupport check failed for volume \"v\" : mount options are not " +
			"supported for this volume type", "", []string{"ro", "noatime"}, "spec.mountOptions", "ro,noatime"},
		{"named by mount", "mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs -o " +
			"hard,nfsvers=9 s:/x /y\nOutput: mount.nfs: invalid mount option: nfsvers=9", "", []string{"hard",
			"nfsvers=9"},
			"spec.mountOptions[1]", "nfsvers=9"},
		{"named by a driver", `rpc error: code = InvalidArgument desc = unknown mount option "discrad"`, "",
			[]string{"discrad"}, "spec.mountOptions[0]", "discrad"},
		{"annotation", "mount options are not supported for this volume type", "vers=3", nil,
			"metadata.annotations[volume.beta.kubernetes.io/mount-options]", "vers=3"},
		{"another reason", "mount failed: connection timed out", "", []string{"hard"}, "", ""},
		{"no options", "wrong fs type, bad option, bad superblock", "", nil, "", ""},
	} {
		in := base()
		in.Pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}
		claim.Spec.VolumeName = "v"
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
		v.Spec.MountOptions, v.Spec.NFS = c.options, &corev1.NFSVolumeSource{Server: "s", Path: "/x"}
		if c.annotation != "" {
			v.Annotations = map[string]string{corev1.MountOptionAnnotation: c.annotation}
		}
		in.Objects = &finding.Cluster{Namespace: "shop"}
		in.Objects.Add("PersistentVolumeClaim", claim)
		in.Objects.Add("PersistentVolume", v)
		var a Answer
		blamed := optionRefused(&a, in, journal.VolumeWaiting{Volume: "data", Type: "persistentVolumeClaim",
			Message: c.words})
		field, value := "", ""
		if len(a.Findings) > 0 {
			field, value = a.Findings[0].Field, a.Findings[0].Value
		}
		if blamed != (c.field != "") || field != c.field || value != c.value || blamed && len(a.Fixes[0].Run) == 0 {
			t.Errorf("%s: got %s=%s with %+v, want %s=%s with a command", c.name, field, value, a.Fixes, c.field,
				c.value)
		}
	}
}

// Changing owners is refused to a container without the capability, or that is not root, wherever
// the file lies: on a volume as well as in the image.
func TestChangingOwnersIsRefusedForTheCapabilityOrTheUser(t *testing.T) {
	user := int64(1000)
	for _, c := range []struct {
		line    string
		context corev1.SecurityContext
		field   string
	}{
		{"chown: /data: Operation not permitted", corev1.SecurityContext{Capabilities: &corev1.Capabilities{
			Drop: []corev1.Capability{"ALL"}}}, "spec.containers[0].securityContext.capabilities.drop"},
		{"chmod: changing permissions of '/data/x': Operation not permitted", corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"FOWNER"}}},
			"spec.containers[0].securityContext.capabilities.drop"},
		{"chgrp: /data: Operation not permitted", corev1.SecurityContext{RunAsUser: &user},
			"spec.containers[0].securityContext.runAsUser"},
		{"chown: /data: No such file or directory", corev1.SecurityContext{RunAsUser: &user}, ""},
	} {
		in := base()
		in.Pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		x := &in.Pod.Spec.Containers[0]
		x.SecurityContext, x.VolumeMounts = &c.context, []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		r, _ := ownerChangeRefused(in, container{spec: x}, "spec.containers[0]", strings.ToLower(c.line))
		if r.field != c.field {
			t.Errorf("%s: got %q, want %q", c.line, r.field, c.field)
		}
	}
}
