package podplan_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// What the Killing event says of every kind of container, cause and restart policy, and the grace
// that goes with it: as upstream's computePodActions. Only an app container "will be restarted";
// rules that go by exit codes have no say. What will be restarted is started again, and a sidecar
// whatever the policy.
//
// row: PST-29
// row: RST-03
func TestKillMessages(t *testing.T) {
	always, onFailure, never := v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever
	seconds := int64(7)
	failedProbe := func(kind string) func(*podplan.In) {
		return func(in *podplan.In) {
			for _, name := range []string{"a", "s"} {
				in.Health[name] = podplan.Health{Started: kind != "startup", FailedProbe: kind}
			}
		}
	}
	changed := func(in *podplan.In) {
		for i := range in.Observed.Containers {
			in.Observed.Containers[i].Annotations.Hash = "other"
		}
	}
	lost := func(in *podplan.In) {
		for i := range in.Observed.Containers {
			if in.Observed.Containers[i].State == podplan.Running {
				in.Observed.Containers[i].State = podplan.Unknown
			}
		}
	}
	own := func(p v1.ContainerRestartPolicy, rules ...v1.ContainerRestartRule) func(*podplan.In) {
		return func(in *podplan.In) {
			for i := range in.Pod.Spec.Containers {
				in.Pod.Spec.Containers[i].RestartPolicy, in.Pod.Spec.Containers[i].RestartPolicyRules = &p, rules
			}
		}
	}
	on137 := rule(v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleOnExitCodesOpIn, 1, 137)
	for _, x := range []struct {
		what   string
		policy v1.RestartPolicy
		causes []func(*podplan.In)
		a, s   string
	}{
		{"liveness", always, []func(*podplan.In){failedProbe("liveness")},
			"Container a failed liveness probe, will be restarted", "Init container s failed liveness probe"},
		{"startup", always, []func(*podplan.In){failedProbe("startup")},
			"Container a failed startup probe, will be restarted", "Init container s failed startup probe"},
		{"liveness", onFailure, []func(*podplan.In){failedProbe("liveness")},
			"Container a failed liveness probe, will be restarted", "Init container s failed liveness probe"},
		{"liveness", never, []func(*podplan.In){failedProbe("liveness")}, "Container a failed liveness probe",
			"Init container s failed liveness probe"},
		{"startup", never, []func(*podplan.In){failedProbe("startup")}, "Container a failed startup probe",
			"Init container s failed startup probe"},
		{"liveness, own Never", always, []func(*podplan.In){own("Never"), failedProbe("liveness")},
			"Container a failed liveness probe", "Init container s failed liveness probe"},
		{"liveness, own Always", never, []func(*podplan.In){own("Always"), failedProbe("liveness")},
			"Container a failed liveness probe, will be restarted", "Init container s failed liveness probe"},
		{"liveness, own Never with a rule", always, []func(*podplan.In){own("Never", on137), failedProbe("liveness")},
			"Container a failed liveness probe", "Init container s failed liveness probe"},
		{"definition", never, []func(*podplan.In){changed}, "Container a definition changed, will be restarted",
			"Init container s definition changed"},
		{"unknown state", never, []func(*podplan.In){lost},
			`Container is in "unknown" state, try killing it before restart`,
			`Init container is in "unknown" state, try killing it before restart`},
		{"unknown state", always, []func(*podplan.In){lost},
			`Container is in "unknown" state, try killing it before restart`,
			`Init container is in "unknown" state, try killing it before restart`},
	} {
		at := time.Unix(1000, 0)
		in := podplan.In{
			Pod: testPod(x.policy), Observed: observedFrom("i=0 s=run a=run b=run"), Now: at,
			Facts:  podplan.Facts{Accepted: at, VolumesReady: at},
			Health: map[string]podplan.Health{"s": {Started: true}, "a": {Started: true}, "b": {Started: true}},
		}
		probe := &v1.Probe{TerminationGracePeriodSeconds: &seconds}
		for _, list := range [][]v1.Container{in.Pod.Spec.InitContainers[1:], in.Pod.Spec.Containers[:1]} {
			list[0].LivenessProbe, list[0].StartupProbe = probe, probe
		}
		for _, cause := range x.causes {
			cause(&in)
		}
		got := map[string]podplan.Kill{}
		again := map[string]bool{}
		for _, a := range podplan.Next(in).Do {
			if stop, ok := a.(podplan.Stop); ok {
				for _, k := range stop.Kills {
					got[k.Name] = k
				}
			}
			if start, ok := a.(podplan.Start); ok {
				again[start.Name] = true
			}
		}
		if says := strings.HasSuffix(x.a, "will be restarted"); x.what != "unknown state" &&
			(again["a"] != says || !again["s"]) {
			t.Errorf("%s, %s: got started again %v, want the sidecar, and a: %t", x.what, x.policy, again, says)
		}
		if got["a"].Event != x.a || got["s"].Event != x.s {
			t.Errorf("%s, %s: %q and %q, want %q and %q", x.what, x.policy, got["a"].Event, got["s"].Event, x.a, x.s)
		}
		if g := got["a"].Grace; (g == 7*time.Second) != (in.Health["a"].FailedProbe != "") {
			t.Errorf("%s, %s: %s of grace", x.what, x.policy, g)
		}
	}
}

// SandboxChanged is emitted only if the Pod goes on in another sandbox.
func TestASandboxThatDiesUnderAPodThatEndsIsNotChanged(t *testing.T) {
	for _, x := range []struct {
		policy  v1.RestartPolicy
		seen    string
		changed bool
	}{
		{v1.RestartPolicyNever, "i=0 s=run a=run b=run", false},
		{v1.RestartPolicyNever, "i=0 s=run a=0 b=run", false},
		{v1.RestartPolicyOnFailure, "i=0 s=run a=0 b=run", true},
		{v1.RestartPolicyAlways, "i=0 s=run a=0 b=run", true},
	} {
		at := time.Unix(1000, 0)
		in := podplan.In{Pod: testPod(x.policy), Observed: observedFrom(x.seen), Now: at,
			Facts: podplan.Facts{Accepted: at, VolumesReady: at}, Health: map[string]podplan.Health{}}
		in.Observed.Sandboxes[0].Ready = false
		facts, anew := false, false
		for _, a := range podplan.Next(in).Do {
			switch a := a.(type) {
			case podplan.StopSandbox:
				facts = facts || a.Changed
			case podplan.CreateSandbox:
				anew = true
			}
		}
		if facts != x.changed || anew != x.changed {
			t.Errorf("%s, %q: got %v, made anew %v, want %v", x.policy, x.seen, facts, anew, x.changed)
		}
	}
}
