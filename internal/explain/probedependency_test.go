package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// Of a probe whose program asks another Service, what is wrong with that is told, with the field of
// the probe; a Service that answers, the container itself and other probes are nobody's fault.
//
// row: RST-10
func TestAProbeThatAsksAnotherService(t *testing.T) {
	for _, c := range []struct {
		name, url    string
		deny, listen bool
		ready        bool
		want         string
	}{
		{"a policy shuts it", "http://db:5432/", true, true, false, "PolicyDenies"},
		{"nothing listens", "http://db.shop:5432/", false, false, false, "NobodyListens"},
		{"it answers", "http://db:5432/", false, true, false, ""},
		{"the container itself", "http://localhost:5432/", true, true, false, ""},
		{"its own address", "http://127.0.0.1:5432/", true, true, false, ""},
		{"a name from outside", "http://example.com:5432/", true, true, false, ""},
		{"the probe succeeds", "http://db:5432/", true, true, true, ""},
	} {
		in := base()
		in.Pod.Status.PodIPs = []corev1.PodIP{{IP: "10.72.1.2"}}
		in.Pod.Status.Phase = corev1.PodRunning
		in.app().ReadinessProbe = &corev1.Probe{PeriodSeconds: 3, TimeoutSeconds: 2, FailureThreshold: 3,
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"wget", "-q", c.url}}}}
		s := in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-time.Minute)}})
		s.Ready = c.ready
		ready := corev1.ConditionFalse
		if c.ready {
			ready = corev1.ConditionTrue
		}
		in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		result := map[bool]string{true: "success", false: "failure"}[c.ready]
		in.fact(2*time.Second, "kubelet", journal.Probed{Container: "app", Probe: "readiness", Result: result, Count: 3,
			Message: "command timed out"})
		in.NamespaceContext = &NamespaceContext{Services: []*corev1.Service{dbService()},
			Ready: map[string]int{"db": 1}}
		w := dbState(in.Pod, c.deny, c.listen)
		in.PacketState = &w
		a := Why(in)
		var got *finding.Finding
		for i := range a.Findings {
			if a.Findings[i].Code == "DependencyFails" {
				got = &a.Findings[i]
			}
		}
		if (got != nil) != (c.want != "") || !strings.Contains(a.Cause, c.want) {
			t.Errorf("%s: got %q with %+v, want %q", c.name, a.Cause, got, c.want)
		}
		if got != nil && got.Field != "spec.containers[0].readinessProbe.exec.command[2]" {
			t.Errorf("%s: got field %s, want that of the probe", c.name, got.Field)
		}
		if asks := PodPackets(in.Pod); c.ready && len(asks) > 0 {
			t.Errorf("%s: got requests %v, want none of a container that is ready", c.name, asks)
		}
	}
}

// The path of another probe that is answered well is proposed for one that is not; a probe of which
// nothing good is known proves nothing.
func TestAPathThatAnotherProbeUses(t *testing.T) {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path}}}
	}
	for name, c := range map[string]struct {
		liveness *corev1.Probe
		result   string
		want     string
	}{
		"it succeeds":   {probe("/healthz"), "success", `"path":"/healthz"`},
		"it fails too":  {probe("/healthz"), "failure", "tcpSocket"},
		"not known":     {probe("/healthz"), "", "tcpSocket"},
		"the same path": {probe("/readyz"), "success", "tcpSocket"},
		"none":          {nil, "", "tcpSocket"},
	} {
		in := base()
		in.app().ReadinessProbe, in.app().LivenessProbe = probe("/readyz"), c.liveness
		if c.result != "" {
			in.fact(time.Second, "kubelet", journal.Probed{Container: "app", Probe: "liveness", Result: c.result})
		}
		fixes := wrongAnswer(in, in.app(), journal.Probed{Container: "app", Probe: "readiness"}, 8080)
		if run := firstRun(Answer{Fixes: fixes}); !strings.Contains(run, c.want) {
			t.Errorf("%s: got %q first, want %q", name, run, c.want)
		}
	}
}
