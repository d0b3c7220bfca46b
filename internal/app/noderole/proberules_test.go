package noderole

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func probing(p *corev1.Probe) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = "p", "ns"
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", LivenessProbe: p}}
	return pod
}

// row: PRB-02
func TestEachProbeHasOneHandler(t *testing.T) {
	http := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}
	tcp := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}
	grpc := corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 80}}
	exec := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}
	for _, tc := range []struct {
		name string
		h    corev1.ProbeHandler
		says string
	}{
		{"http", http, ""}, {"tcp", tcp, ""}, {"grpc", grpc, ""}, {"exec", exec, ""},
		{"none", corev1.ProbeHandler{}, "must specify a handler type"},
		{"two", corev1.ProbeHandler{HTTPGet: http.HTTPGet, Exec: exec.Exec},
			"may not specify more than 1 handler type"},
		{"four", corev1.ProbeHandler{HTTPGet: http.HTTPGet, Exec: exec.Exec, TCPSocket: tcp.TCPSocket, GRPC: grpc.GRPC},
			"may not specify more than 1 handler type"},
	} {
		p, rules := probing(&corev1.Probe{ProbeHandler: tc.h}), podRules()
		rules.Default(p)
		errs := rules.Validate(p).ToAggregate()
		if (errs == nil) != (tc.says == "") || errs != nil && !strings.Contains(errs.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", tc.name, errs, tc.says)
		}
	}
}

// row: PRB-21
// row: PRB-22
func TestWhatAProbeMayLeaveOut(t *testing.T) {
	p := probing(
		&corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("web")}}})
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 80}}
	podRules().Default(p)
	got := p.Spec.Containers[0].LivenessProbe
	if got.PeriodSeconds != 10 || got.TimeoutSeconds != 1 || got.SuccessThreshold != 1 || got.FailureThreshold != 3 ||
		got.InitialDelaySeconds != 0 || got.HTTPGet.Scheme != corev1.URISchemeHTTP || got.HTTPGet.Path != "/" {
		t.Errorf("got %+v, want PeriodSeconds 10, TimeoutSeconds 1, SuccessThreshold 1, FailureThreshold 3, "+
			"InitialDelaySeconds 0, Scheme URISchemeHTTP and Path /", got)
	}
	if errs := podRules().Validate(p); len(errs) > 0 {
		t.Errorf("got %v, want no errs", errs)
	}
}
