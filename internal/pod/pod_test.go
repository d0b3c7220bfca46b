package pod_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/test/wrappers"
)

// list is of CPU and memory.
var list = wrappers.CPUAndMemory

func container(requests, limits v1.ResourceList) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func sidecar(c v1.Container) v1.Container {
	c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	return c
}

// row: FIL-17, ISE-15
func TestRequests(t *testing.T) {
	ask := func(cpu, memory string) v1.Container { return container(list(cpu, memory), nil) }
	for name, c := range map[string]struct {
		spec        v1.PodSpec
		cpu, memory string
	}{
		"sum of app containers": {v1.PodSpec{Containers: []v1.Container{ask("1", "1Gi"), ask("500m", "")}},
			"1500m", "1Gi"},
		"largest init container": {v1.PodSpec{InitContainers: []v1.Container{ask("", "4Gi"), ask("2", "")},
			Containers: []v1.Container{ask("1", "1Gi")}}, "2", "4Gi"},
		"sidecars add to app": {v1.PodSpec{InitContainers: []v1.Container{sidecar(ask("1", "1Gi"))},
			Containers: []v1.Container{ask("1", "1Gi")}}, "2", "2Gi"},
		"sidecars before an init add too": {
			v1.PodSpec{InitContainers: []v1.Container{sidecar(ask("1", "1Gi")), ask("3", "1Gi")},
				Containers: []v1.Container{ask("1", "1Gi")}}, "4", "2Gi"},
		"sidecars after an init do not": {
			v1.PodSpec{InitContainers: []v1.Container{ask("3", "1Gi"), sidecar(ask("1", "1Gi"))},
				Containers: []v1.Container{ask("1", "1Gi")}}, "3", "2Gi"},
		"overhead on top": {v1.PodSpec{Overhead: list("250m", "120Mi"),
			Containers: []v1.Container{ask("1", "1Gi")}}, "1250m", "1144Mi"},
		"Pod-level requests replace": {v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: list("2", "")},
			Containers: []v1.Container{ask("1", "1Gi")}}, "2", "1Gi"},
	} {
		got := pod.Requests(&v1.Pod{Spec: c.spec})
		if cpu := got[v1.ResourceCPU]; cpu.Cmp(resource.MustParse(c.cpu)) != 0 {
			t.Errorf("%s: cpu %s, want %s", name, &cpu, c.cpu)
		}
		if memory := got[v1.ResourceMemory]; memory.Cmp(resource.MustParse(c.memory)) != 0 {
			t.Errorf("%s: memory %s, want %s", name, &memory, c.memory)
		}
	}
}

// row: ISE-14, ISE-15
func TestLimitsAndBounds(t *testing.T) {
	p := &v1.Pod{Spec: v1.PodSpec{Overhead: list("1", "1Gi"), Containers: []v1.Container{container(nil, list("1", "")),
		container(nil, list("1", "1Gi"))}}}
	l := pod.Limits(p)
	cpu, memory := l[v1.ResourceCPU], l[v1.ResourceMemory]
	if cpu.Value() != 3 || memory.Value() != 2<<30 {
		t.Errorf("limits %s %s, want the sums with overhead", &cpu, &memory)
	}
	// Memory is not bounded: the first container has no limit.
	for name, want := range map[v1.ResourceName]bool{v1.ResourceCPU: true, v1.ResourceMemory: false} {
		if got := pod.HasLimit(p, name); got != want {
			t.Errorf("a limit of %s: got %v, want %v", name, got, want)
		}
	}
}

// row: QOS-01, QOS-02, QOS-03
func TestQOS(t *testing.T) {
	both := list("1", "1Gi")
	for name, c := range map[string]struct {
		spec v1.PodSpec
		want v1.PodQOSClass
	}{
		"nothing asked": {v1.PodSpec{Containers: []v1.Container{{}}}, v1.PodQOSBestEffort},
		"zero asked": {
			v1.PodSpec{Containers: []v1.Container{container(list("0", "0"), nil)}}, v1.PodQOSBestEffort},
		"other resources do not count": {
			v1.PodSpec{Containers: []v1.Container{container(v1.ResourceList{"example.com/gpu": resource.MustParse("1")},
				nil)}}, v1.PodQOSBestEffort},
		"limits equal requests": {v1.PodSpec{Containers: []v1.Container{container(both, both)}},
			v1.PodQOSGuaranteed},
		"equal written differently": {
			v1.PodSpec{Containers: []v1.Container{container(list("1000m", "1024Mi"), both)}}, v1.PodQOSGuaranteed},
		"one container without limits": {v1.PodSpec{Containers: []v1.Container{container(both, both), {}}},
			v1.PodQOSBurstable},
		"an init container without limits": {v1.PodSpec{InitContainers: []v1.Container{{}},
			Containers: []v1.Container{container(both, both)}}, v1.PodQOSBurstable},
		"requests below limits": {
			v1.PodSpec{Containers: []v1.Container{container(list("500m", "1Gi"), both)}}, v1.PodQOSBurstable},
		"only a limit": {v1.PodSpec{Containers: []v1.Container{container(nil, list("1", ""))}},
			v1.PodQOSBurstable},
		"Pod-level resources decide": {
			v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: both, Limits: both},
				Containers: []v1.Container{{}}}, v1.PodQOSGuaranteed},
		"Pod-level requests without all limits": {v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: both},
			Containers: []v1.Container{container(both, both)}}, v1.PodQOSBurstable},
	} {
		if got := pod.QOS(&v1.Pod{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestHostPorts(t *testing.T) {
	with := func(port int32) v1.Container {
		return v1.Container{Ports: []v1.ContainerPort{{HostPort: port}, {ContainerPort: 9}}}
	}
	p := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{with(1), sidecar(with(2))},
		Containers: []v1.Container{with(3)}}}
	got := pod.HostPorts(p)
	if len(got) != 2 || got[0].HostPort != 2 || got[1].HostPort != 3 {
		t.Errorf("host ports %v, want those of the sidecar and the app", got)
	}
}

func TestKinds(t *testing.T) {
	static := &v1.Pod{}
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	mirror := &v1.Pod{}
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x", "kubernetes.io/config.source": "api"}
	type kind struct{ static, mirror, critical bool }
	for p, want := range map[*v1.Pod]kind{static: {static: true, critical: true},
		mirror: {mirror: true, critical: true}} {
		if got := (kind{pod.IsStatic(p), pod.IsMirror(p), pod.IsCritical(p)}); got != want {
			t.Errorf("a Pod with the annotations %v: got %+v, want %+v", p.Annotations, got, want)
		}
	}
	p := &v1.Pod{Spec: v1.PodSpec{Priority: new(int32(2_000_000_000))}}
	if got, none := pod.IsCritical(p), pod.IsCritical(&v1.Pod{}); !got || none {
		t.Errorf("critical: got %v with priority %d and %v without one, want true and false", got, *p.Spec.Priority,
			none)
	}
	for phase, want := range map[v1.PodPhase]bool{"": false, v1.PodRunning: false, v1.PodFailed: true,
		v1.PodSucceeded: true} {
		if got := pod.IsTerminal(&v1.Pod{Status: v1.PodStatus{Phase: phase}}); got != want {
			t.Errorf("a Pod of phase %q is terminal: got %v, want %v", phase, got, want)
		}
	}
}

func TestConditions(t *testing.T) {
	p := &v1.Pod{}
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue},
		{Type: v1.PodReady, Status: v1.ConditionFalse}}
	for kind, want := range map[v1.PodConditionType]struct{ has, is bool }{
		v1.PodScheduled: {true, true}, v1.PodReady: {true, false}, v1.DisruptionTarget: {false, false},
	} {
		c := pod.Condition(p, kind)
		if (c != nil) != want.has || c != nil && c.Type != kind {
			t.Errorf("%s: got the condition %+v, want it: %t", kind, c, want.has)
		}
		if got := pod.IsConditionTrue(p, kind); got != want.is {
			t.Errorf("%s: got true %t, want %t", kind, got, want.is)
		}
	}
	pod.Condition(p, v1.PodReady).Status = v1.ConditionTrue
	if !pod.IsReady(p) {
		t.Errorf("the Ready condition set to True: got %+v, want a Pod that is ready", p.Status.Conditions)
	}
}

func TestIsActive(t *testing.T) {
	for phase, want := range map[v1.PodPhase]bool{v1.PodPending: true, v1.PodRunning: true, v1.PodFailed: false,
		v1.PodSucceeded: false} {
		p := &v1.Pod{Status: v1.PodStatus{Phase: phase}}
		if got := pod.IsActive(p); got != want {
			t.Errorf("a Pod of phase %s: got active %t, want %t", phase, got, want)
		}
		p.DeletionTimestamp = &metav1.Time{}
		if got := pod.IsActive(p); got {
			t.Errorf("a Pod of phase %s that is being deleted: got active %t, want false", phase, got)
		}
	}
}
