package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// A gRPC probe that connects and gets no answer by gRPC asks a program without the health service;
// one that is refused asks a port where nothing listens.
func TestGRPCProbesByHowConnectingWent(t *testing.T) {
	const words = `timeout: failed to connect service "10.0.0.1:8080" within 1s: context deadline exceeded`
	p := &corev1.Probe{TimeoutSeconds: 1}
	p.GRPC = &corev1.GRPCAction{Port: 8080}
	c := &corev1.Container{Name: "app", ReadinessProbe: p}
	for _, x := range []struct {
		message, connection      string
		listening                []string
		field, value, want, text string
	}{
		{words, "connected", nil, ".grpc.port", "8080", "", "does not answer there"},
		{words, "", []string{"0.0.0.0:8080"}, ".grpc.port", "8080", "", "does not answer there"},
		{"error: this server does not implement the grpc health protocol", "", nil, ".grpc.port", "8080", "",
			"does not answer there"},
		{words, "refused", []string{"0.0.0.0:9090"}, ".grpc.port", "8080", "9090", "where nothing listens"},
		{words, "refused", nil, ".grpc.port", "8080", "", "where nothing listens"},
		{words, "", nil, ".timeoutSeconds", "1", "5", "no answer within its timeout"},
	} {
		in := base()
		in.Pod.Spec.Containers = []corev1.Container{*c}
		d := diagnoseProbe(in, c, journal.Probed{Container: "app", Probe: "readiness", Message: x.message,
			Connection: x.connection, Listening: x.listening})
		field, value, want := probeField(c, p, x.message, d)
		if field != x.field || value != x.value || want != x.want || !strings.Contains(d.text, x.text) {
			t.Errorf("%+v: got %s=%s want %q: %s", x, field, value, want, d.text)
		}
	}
}
