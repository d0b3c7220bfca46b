package podspec

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func probing(p *v1.Probe) *v1.PodSpec {
	return valid(func(s *v1.PodSpec) {
		s.Containers[0].Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 80}}
		s.Containers[0].LivenessProbe = p
	})
}

// errorsOf is what validation says of a Pod's spec: nothing, or its errors one per line.
func errorsOf(s *v1.PodSpec) string { return errorText(ValidatePodSpec(s, "p", field.NewPath("spec"))) }

var execTrue = v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}

// row: PRB-02
func TestEachProbeHasOneHandler(t *testing.T) {
	http := v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}
	tcp := v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}}
	grpc := v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 80}}
	for _, tc := range []struct {
		name string
		h    v1.ProbeHandler
		says string
	}{
		{"http", http, ""}, {"tcp", tcp, ""}, {"grpc", grpc, ""}, {"exec", execTrue, ""},
		{"none", v1.ProbeHandler{}, "must specify a handler type"},
		{"two", v1.ProbeHandler{HTTPGet: http.HTTPGet, Exec: execTrue.Exec},
			"may not specify more than 1 handler type"},
		{"another two", v1.ProbeHandler{TCPSocket: tcp.TCPSocket, GRPC: grpc.GRPC},
			"may not specify more than 1 handler type"},
		{"four", v1.ProbeHandler{HTTPGet: http.HTTPGet, Exec: execTrue.Exec, TCPSocket: tcp.TCPSocket, GRPC: grpc.GRPC},
			"may not specify more than 1 handler type"},
	} {
		for kind, set := range map[string]func(*v1.Container, *v1.Probe){
			"startup":   func(c *v1.Container, p *v1.Probe) { c.StartupProbe = p },
			"readiness": func(c *v1.Container, p *v1.Probe) { c.ReadinessProbe = p },
			"liveness":  func(c *v1.Container, p *v1.Probe) { c.LivenessProbe = p },
		} {
			for _, sidecar := range []bool{false, true} {
				got := errorsOf(valid(func(s *v1.PodSpec) {
					s.InitContainers = []v1.Container{{Name: "side", Image: "i",
						RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
					c := &s.Containers[0]
					if sidecar {
						c = &s.InitContainers[0]
					}
					set(c, &v1.Probe{ProbeHandler: *tc.h.DeepCopy()})
				}))
				if (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
					t.Errorf("%s, a %s probe, of a sidecar %t: got %q, want %q", tc.name, kind, sidecar, got, tc.says)
				}
			}
		}
	}
}

// row: PRB-21
// row: PRB-22
func TestWhatAProbeMayLeaveOut(t *testing.T) {
	s := probing(&v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("web")}}})
	got := s.Containers[0].LivenessProbe
	if got.PeriodSeconds != 10 || got.TimeoutSeconds != 1 || got.SuccessThreshold != 1 || got.FailureThreshold != 3 ||
		got.InitialDelaySeconds != 0 || got.HTTPGet.Scheme != v1.URISchemeHTTP || got.HTTPGet.Path != "/" {
		t.Errorf("got %+v, want PeriodSeconds 10, TimeoutSeconds 1, SuccessThreshold 1, FailureThreshold 3, "+
			"InitialDelaySeconds 0, Scheme HTTP and Path /", got)
	}
	each := func() *v1.Probe { return &v1.Probe{ProbeHandler: execTrue} }
	all := valid(func(s *v1.PodSpec) {
		s.InitContainers = []v1.Container{{Name: "side", Image: "i",
			RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
		for _, c := range []*v1.Container{&s.InitContainers[0], &s.Containers[0]} {
			c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = each(), each(), each()
		}
	})
	for _, c := range []v1.Container{all.InitContainers[0], all.Containers[0]} {
		for kind, p := range map[string]*v1.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe,
			"liveness": c.LivenessProbe} {
			if p.PeriodSeconds != 10 || p.TimeoutSeconds != 1 || p.SuccessThreshold != 1 || p.FailureThreshold != 3 {
				t.Errorf("%s probe of %s: got %+v, want the defaults", kind, c.Name, p)
			}
		}
	}
	if got := errorsOf(s); got != "" {
		t.Errorf("got %s, want no errors", got)
	}
}

// Hooks and probes are for app containers and sidecars.
//
// row: ISE-05
// row: ISE-19
func TestInitContainersHaveNoHooksAndProbes(t *testing.T) {
	for field, set := range map[string]func(*v1.Container){
		"lifecycle": func(c *v1.Container) {
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: execTrue.Exec}}
		},
		"livenessProbe":  func(c *v1.Container) { c.LivenessProbe = &v1.Probe{ProbeHandler: execTrue} },
		"readinessProbe": func(c *v1.Container) { c.ReadinessProbe = &v1.Probe{ProbeHandler: execTrue} },
		"startupProbe":   func(c *v1.Container) { c.StartupProbe = &v1.Probe{ProbeHandler: execTrue} },
	} {
		for policy, taken := range map[v1.ContainerRestartPolicy]bool{"": false, "Never": false, "OnFailure": false,
			"Always": true} {
			got := errorsOf(valid(func(s *v1.PodSpec) {
				s.InitContainers = []v1.Container{{Name: "first", Image: "i"}, {Name: "second", Image: "i"}}
				c := &s.InitContainers[1]
				if policy != "" {
					c.RestartPolicy = &policy
				}
				set(c)
			}))
			want := "spec.initContainers[1]." + field +
				": Forbidden: may not be set for init containers without restartPolicy=Always"
			if taken {
				want = ""
			}
			if got != want {
				t.Errorf("%s of an init container with policy %q: got %q, want %q", field, policy, got, want)
			}
		}
	}
	got := errorsOf(valid(func(s *v1.PodSpec) {
		s.InitContainers = []v1.Container{
			{Name: "first", Image: "i", RestartPolicy: new(v1.ContainerRestartPolicy("Sometimes"))}}
	}))
	if want := `spec.initContainers[0].restartPolicy: Unsupported value: "Sometimes"`; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// row: ISE-29
// row: ISE-30
func TestFieldsThatEphemeralContainersMayNotHave(t *testing.T) {
	for field, set := range map[string]func(*v1.EphemeralContainerCommon){
		"":               func(*v1.EphemeralContainerCommon) {},
		"ports":          func(c *v1.EphemeralContainerCommon) { c.Ports = []v1.ContainerPort{{ContainerPort: 80}} },
		"livenessProbe":  func(c *v1.EphemeralContainerCommon) { c.LivenessProbe = &v1.Probe{ProbeHandler: execTrue} },
		"readinessProbe": func(c *v1.EphemeralContainerCommon) { c.ReadinessProbe = &v1.Probe{ProbeHandler: execTrue} },
		"startupProbe":   func(c *v1.EphemeralContainerCommon) { c.StartupProbe = &v1.Probe{ProbeHandler: execTrue} },
		"lifecycle": func(c *v1.EphemeralContainerCommon) {
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: execTrue.Exec}}
		},
		"resources": func(c *v1.EphemeralContainerCommon) {
			c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		},
	} {
		got := errorsOf(valid(func(s *v1.PodSpec) {
			s.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
				Name: "debugger", Image: "i", ImagePullPolicy: v1.PullAlways,
				TerminationMessagePolicy: v1.TerminationMessageReadFile}}}
			set(&s.EphemeralContainers[0].EphemeralContainerCommon)
		}))
		want := "spec.ephemeralContainers[0]." + field + ": Forbidden: cannot be set for an Ephemeral Container"
		if field == "" && got != "" || field != "" && !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", field, got, want)
		}
	}
}

// Which fields of the Pod a container may see, by environment and by volume.
//
// row: DWN-01
// row: DWN-02
// row: DWN-03
func TestDownwardAPIFields(t *testing.T) {
	for path, where := range map[string]string{
		"metadata.name": "env volume", "metadata.namespace": "env volume", "metadata.uid": "env volume",
		"metadata.annotations['key']": "env volume", "metadata.labels['example.com/key']": "env volume",
		"spec.serviceAccountName": "env", "spec.nodeName": "env", "status.hostIP": "env", "status.hostIPs": "env",
		"status.podIP": "env", "status.podIPs": "env",
		"metadata.labels": "volume", "metadata.annotations": "volume",
		"status.phase": "", "spec.restartPolicy": "", "spec.containers": "",
	} {
		ref := &v1.ObjectFieldSelector{FieldPath: path}
		env := errorsOf(valid(func(s *v1.PodSpec) {
			s.Containers[0].Env = []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{FieldRef: ref}}}
		}))
		file := v1.DownwardAPIVolumeFile{Path: "a", FieldRef: ref}
		volume := errorsOf(with(v1.VolumeSource{
			DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{file}}}))
		projected := errorsOf(with(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{file}}}}}}))
		for name, got := range map[string]string{"env": env, "volume": volume, "projected volume": projected} {
			taken := strings.Contains(where, strings.TrimPrefix(name, "projected "))
			if taken != (got == "") || !taken && !strings.Contains(got, "fieldPath: ") {
				t.Errorf("%s by %s: got %q, want it taken: %t", path, name, got, taken)
			}
		}
	}
}
