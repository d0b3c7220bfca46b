package podspec

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// row: API-37
func TestPullPolicy(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string]v1.PullPolicy{
		"nginx": v1.PullAlways, "nginx:latest": v1.PullAlways, "nginx:1.27": v1.PullIfNotPresent,
		"localhost:5000/nginx":   v1.PullAlways,
		"localhost:5000/nginx:1": v1.PullIfNotPresent, "nginx" + digest: v1.PullIfNotPresent,
		"nginx:latest" + digest: v1.PullAlways,
		"":                      v1.PullIfNotPresent, "NGINX::bad": v1.PullIfNotPresent,
	} {
		if got := PullPolicy(image); got != want {
			t.Errorf("%q: %s, want %s", image, got, want)
		}
	}
}

// TestPodTemplate: a template is validated like a Pod, with its own path and without what only Pods
// get.
//
// row: API-44
func TestPodTemplate(t *testing.T) {
	x := &v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"bad key": "v"}},
		Spec: v1.PodSpec{
			HostNetwork: true,
			Containers: []v1.Container{{Name: "A", Image: " spaces ",
				Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}}},
			EphemeralContainers: []v1.EphemeralContainer{
				{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "x"}}},
		},
	}
	DefaultPodTemplate(x)
	if x.Spec.EnableServiceLinks != nil {
		t.Error("service links are a Pod's default, not a template's")
	}
	var got []string
	for _, e := range ValidatePodTemplateSpec(x, field.NewPath("spec", "template")) {
		got = append(got, e.Field)
	}
	if want := "[spec.template.labels spec.template.spec.containers[0].name " +
		"spec.template.spec.ephemeralContainers]"; fmt.Sprint(got) != want {
		t.Errorf("got %v", got)
	}
}

// TestHostPortsOfTemplates: a template may leave host ports to the Pod made of it, which gets them;
// a wrong one is refused in both, and those of init containers in neither.
//
// row: API-44
func TestHostPortsOfTemplates(t *testing.T) {
	spec := func(host int32) v1.PodSpec {
		ports := []v1.ContainerPort{{ContainerPort: 80, HostPort: host}}
		return v1.PodSpec{HostNetwork: true, Containers: []v1.Container{{Name: "c", Image: "i", Ports: ports}},
			InitContainers: []v1.Container{
				{Name: "i", Image: "i", Ports: []v1.ContainerPort{{ContainerPort: 81, HostPort: 82}}}}}
	}
	const wrong = "spec.containers[0].ports[0].hostPort"
	for host, want := range map[int32][2]string{0: {"", wrong}, 80: {"", ""}, 81: {wrong, wrong}} {
		of := v1.PodTemplateSpec{Spec: spec(host)}
		DefaultPodTemplate(&of)
		var got [2]string
		for _, e := range ValidatePodTemplateSpec(&of, nil) {
			got[0] += e.Field
		}
		for _, e := range ValidatePodSpec(&of.Spec, "p", field.NewPath("spec")) {
			got[1] += e.Field
		}
		if got != want {
			t.Errorf("host port %d: template and Pod refuse %q, want %q", host, got, want)
		}
		pod := v1.Pod{Spec: spec(host)}
		if DefaultPod(&pod); pod.Spec.Containers[0].Ports[0].HostPort != max(host, 80) {
			t.Errorf("host port %d: the Pod gets %d", host, pod.Spec.Containers[0].Ports[0].HostPort)
		}
	}
}

func TestPodLevelDefaults(t *testing.T) {
	q := resource.MustParse
	p := &v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "c", Image: "x", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"cpu": q("1")}, Limits: v1.ResourceList{"hugepages-2Mi": q("4Mi")},
		}}},
		Resources: &v1.ResourceRequirements{Limits: v1.ResourceList{"cpu": q("2"), "memory": q("1Gi")}},
	}}
	DefaultPod(p)
	r := p.Spec.Resources
	if cpu, mem, huge := r.Requests["cpu"], r.Requests["memory"], r.Limits["hugepages-2Mi"]; cpu.String() != "1" ||
		mem.String() != "1Gi" || huge.String() != "4Mi" {
		t.Errorf("got %+v, want cpu 1, mem 1Gi and huge 4Mi", r)
	}
}

// Fields behind gates that are off go at creation, and stay where they are stored already.
func TestFieldsBehindGatesThatAreOffAreDropped(t *testing.T) {
	spec := func() *v1.PodSpec {
		return &v1.PodSpec{
			SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: new("g")},
			Containers: []v1.Container{{Lifecycle: &v1.Lifecycle{StopSignal: new(v1.SIGUSR1)},
				VolumeMounts: []v1.VolumeMount{{BindMountOptions: []string{"noexec"}}}}},
			Volumes: []v1.Volume{
				{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Mode: new(int32(0o700))}}}},
		}
	}
	s := spec()
	DropDisabled(s, nil)
	if s.SchedulingGroup != nil || s.Containers[0].Lifecycle != nil ||
		s.Containers[0].VolumeMounts[0].BindMountOptions != nil || s.Volumes[0].EmptyDir.Mode != nil {
		t.Errorf("got %+v, want no SchedulingGroup, no Lifecycle, no BindMountOptions and no Mode", s)
	}
	s = spec()
	DropDisabled(s, spec())
	if s.SchedulingGroup == nil || s.Containers[0].Lifecycle == nil ||
		s.Containers[0].VolumeMounts[0].BindMountOptions == nil || s.Volumes[0].EmptyDir.Mode == nil {
		t.Errorf("stored fields went: %+v", s)
	}
}

func TestMergeMatchLabelKeys(t *testing.T) {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"rev": "1"}},
		Spec: v1.PodSpec{TopologySpreadConstraints: []v1.TopologySpreadConstraint{
			{MatchLabelKeys: []string{"rev", "absent"},
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
		}},
	}
	MergeMatchLabelKeys(p)
	if got, want := metav1.FormatLabelSelector(p.Spec.TopologySpreadConstraints[0].LabelSelector),
		"app=a,rev in (1)"; got != want {
		t.Errorf("FormatLabelSelector = %q, want %q", got, want)
	}
}

// What is complete is left alone at no cost: all that is read from the store is defaulted.
func TestDefaultsOfACompletePodAreFree(t *testing.T) {
	c := v1.Container{Name: "c", Image: "registry.example/app:1", Ports: []v1.ContainerPort{{ContainerPort: 80}},
		LivenessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{}}}}
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{c},
		Volumes: []v1.Volume{
			{Name: "v", VolumeSource: v1.VolumeSource{
				Image: &v1.ImageVolumeSource{Reference: "registry.example/data:1"}}}}}}
	DefaultPod(p)
	if n := testing.AllocsPerRun(100, func() { DefaultPod(p) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
