package probelint_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/probelint"
)

func read(t *testing.T, text string) (probelint.Workload, []v1.Service) {
	t.Helper()
	m := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	found, services, err := probelint.Read("test", m)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d Pods, error %v", len(found), err)
	}
	return found[0], services
}

// pod is a Pod with one container that has what lines say of it.
func pod(lines string) string {
	return "kind: Pod\nmetadata: {name: p, labels: {app: web}}\nspec:\n  containers:\n  - name: app\n    ports: " +
		"[{name: http, containerPort: 8080}]\n    " +
		strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n    ")
}

const selecting = `{kind: Service, apiVersion: v1, metadata: {name: svc, namespace: default}, spec: {selector: {app: ` +
	`web}, ports: [{port: 80, targetPort: http}]}}`

type ruleTest struct {
	name     string
	text     string
	measured probelint.Measured
	service  bool
	rule     string // "" : nothing is found
	severity probelint.Severity
	says     string // part of the message
	fix      string // part of the remedy
}

func (v ruleTest) run(t *testing.T) {
	t.Helper()
	w, _ := read(t, v.text)
	in := probelint.In{Workload: w, Measured: v.measured}
	if v.service {
		var s v1.Service
		if err := yaml.Unmarshal([]byte(selecting), &s); err != nil {
			t.Fatal(err)
		}
		in.Services = append(in.Services, s)
	}
	got := probelint.Check(in)
	if v.rule == "" {
		if len(got) != 0 {
			t.Errorf("found %+v, want nothing", got)
		}
		return
	}
	for _, f := range got {
		if f.Rule == v.rule {
			if f.Severity != v.severity || !strings.Contains(f.Message, v.says) || !strings.Contains(f.Fix, v.fix) ||
				f.Field == "" || f.Fix == "" {
				t.Errorf("got %+v\nwant %s saying %q, fix %q", f, v.severity, v.says, v.fix)
			}
			return
		}
	}
	t.Errorf("%s was not found; found %+v", v.rule, got)
}

// The example of the costly exec probe: it runs, and it costs.
//
// row: PRB-27
func TestExecProbeCosts(t *testing.T) {
	for _, v := range []ruleTest{
		{name: "every second", text: pod("livenessProbe:\n  exec: {command: [pgrep, myapp]}\n  periodSeconds: 1"),
			rule: "exec-cost", severity: probelint.Warning, says: "100 such Pods on a node are 100 processes a second",
			fix: "httpGet"},
		{name: "every ten seconds", text: pod("livenessProbe:\n  exec: {command: [pgrep, myapp]}"), rule: "exec-cost",
			severity: probelint.Info, says: "10 processes a second"},
		{name: "readiness", text: pod("readinessProbe:\n  exec: {command: [x]}\n  periodSeconds: 1"), rule: "exec-cost",
			severity: probelint.Warning, says: "100 such Pods on a node are 100 processes a second"},
		{name: "grpc costs nothing", text: pod("livenessProbe:\n  grpc: {port: 8080}\n  periodSeconds: 1")},
		{name: "http costs nothing", text: pod("livenessProbe:\n  httpGet: {port: http}\n  periodSeconds: 2")},
		{name: "tcp costs nothing", text: pod("livenessProbe:\n  tcpSocket: {port: http}\n  periodSeconds: 2")},
		{name: "with replicas",
			text: "kind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: 40\n  template:\n    spec:\n      " +
				"containers:\n      - name: a\n        readinessProbe: {exec: {command: [x]}, periodSeconds: 2}",
			rule: "exec-cost", severity: probelint.Warning, says: "the 40 Pods here are 20 processes a second"},
	} {
		t.Run(v.name, v.run)
	}
}

// row: PRB-28
func TestSharedEndpoint(t *testing.T) {
	for _, v := range []ruleTest{
		{name: "same path",
			text: pod("livenessProbe: {httpGet: {path: /health, port: 8080}, failureThreshold: 4}\nreadinessProbe: " +
				"{httpGet: {path: /health, port: http}}"),
			rule: "shared-endpoint", severity: probelint.Warning, says: "both ask GET /health on port 8080"},
		{name: "other path",
			text: pod("livenessProbe: {httpGet: {path: /live, port: http}, failureThreshold: 4}\nreadinessProbe: " +
				"{httpGet: {path: /ready, port: http}}")},
		{name: "same command",
			text: pod("livenessProbe: {exec: {command: [a]}, failureThreshold: 4}\nreadinessProbe: {exec: {command: " +
				"[a]}}"), rule: "shared-endpoint", severity: probelint.Warning, says: "the command a"},
		{name: "same port",
			text: pod("livenessProbe: {tcpSocket: {port: 8080}, failureThreshold: 4}\nreadinessProbe: {tcpSocket: " +
				"{port: http}}"), rule: "shared-endpoint", severity: probelint.Warning},
		{name: "other port",
			text: pod("livenessProbe: {httpGet: {path: /health, port: 8081}, failureThreshold: 4}\nreadinessProbe: " +
				"{httpGet: {path: /health, port: http}}")},
		{name: "other scheme",
			text: pod("livenessProbe: {httpGet: {port: http, scheme: HTTPS}, failureThreshold: 4}\nreadinessProbe: " +
				"{httpGet: {port: http}}")},
		{name: "same service",
			text: pod("livenessProbe: {grpc: {port: 8080}, failureThreshold: 4}\nreadinessProbe: {grpc: {port: 8080}}"),
			rule: "shared-endpoint", severity: probelint.Warning},
		{name: "path left out",
			text: pod("livenessProbe: {httpGet: {port: http}, failureThreshold: 4}\nreadinessProbe: {httpGet: " +
				"{path: /, port: http, scheme: HTTP}}"), rule: "shared-endpoint", severity: probelint.Warning},
		{name: "other service",
			text: pod("livenessProbe: {grpc: {port: 8080, service: live}, failureThreshold: 4}\nreadinessProbe: " +
				"{grpc: {port: 8080}}")},
	} {
		t.Run(v.name, v.run)
	}
}

// row: PRB-29
func TestSlowStart(t *testing.T) {
	live := "livenessProbe: {httpGet: {port: http}, initialDelaySeconds: 5}"
	for _, v := range []ruleTest{
		{name: "over what liveness gives", text: pod(live), measured: probelint.Measured{Start: time.Minute},
			rule: "needs-startup-probe", severity: probelint.Error,
			says: "initialDelaySeconds 5 + failureThreshold 3 × periodSeconds 10 = 35 s",
			fix:  "periodSeconds 10 and failureThreshold 12 (120 s)"},
		{name: "just what liveness gives", text: pod(live), measured: probelint.Measured{Start: 35 * time.Second},
			rule: "needs-startup-probe", severity: probelint.Warning},
		{name: "over what another liveness gives",
			text: pod("livenessProbe: {httpGet: {port: http}, initialDelaySeconds: 10, periodSeconds: 4, " +
				"failureThreshold: 6}"), measured: probelint.Measured{Start: 35 * time.Second},
			rule: "needs-startup-probe", severity: probelint.Error,
			says: "initialDelaySeconds 10 + failureThreshold 6 × periodSeconds 4 = 34 s"},
		{name: "over five seconds", text: pod(live), measured: probelint.Measured{Start: 6 * time.Second},
			rule: "needs-startup-probe", severity: probelint.Warning, says: "over 5 s"},
		{name: "fast", text: pod(live), measured: probelint.Measured{Start: 5 * time.Second}},
		{name: "nobody knows", text: pod(live)},
		{name: "readiness knows",
			text: pod(live + "\nreadinessProbe: {tcpSocket: {port: http}, initialDelaySeconds: 40}"),
			rule: "needs-startup-probe", severity: probelint.Error,
			says: "its readiness probe expects it to take 40 s"},
		{name: "with a startup probe",
			text:     pod(live + "\nstartupProbe: {httpGet: {port: http}, failureThreshold: 30}"),
			measured: probelint.Measured{Start: time.Minute}},
		{name: "with a short one", text: pod(live + "\nstartupProbe: {httpGet: {port: http}}"),
			measured: probelint.Measured{Start: time.Minute}, rule: "startup-too-short", severity: probelint.Error,
			says: "30 s", fix: "failureThreshold to 12"},
		{name: "longer than the rollout",
			text: "kind: Deployment\nmetadata: {name: d}\nspec:\n  template:\n    spec:\n      containers:\n      - " +
				"name: a\n        startupProbe: {tcpSocket: {port: 1}, failureThreshold: 61}",
			rule: "startup-outlasts-rollout", severity: probelint.Info, says: "= 610 s"},
	} {
		t.Run(v.name, v.run)
	}
}

// row: PRB-30
func TestTimeoutNearP99(t *testing.T) {
	live := pod("livenessProbe: {httpGet: {port: http}}")
	for _, v := range []ruleTest{
		{name: "1 s and 800 ms", text: live, measured: probelint.Measured{P99: 800 * time.Millisecond},
			rule: "timeout-near-p99", severity: probelint.Warning, says: "800 ms", fix: "timeoutSeconds to 2"},
		{name: "over it", text: live, measured: probelint.Measured{P99: 2500 * time.Millisecond},
			rule: "timeout-near-p99", severity: probelint.Error, fix: "timeoutSeconds to 5"},
		{name: "just under twice", text: live, measured: probelint.Measured{P99: 501 * time.Millisecond},
			rule: "timeout-near-p99", severity: probelint.Warning},
		{name: "its own timeout is far", text: pod("livenessProbe: {httpGet: {port: http}, timeoutSeconds: 2}"),
			measured: probelint.Measured{P99: 800 * time.Millisecond}},
		{name: "its own timeout is near", text: pod("livenessProbe: {httpGet: {port: http}, timeoutSeconds: 2}"),
			measured: probelint.Measured{P99: 1600 * time.Millisecond}, rule: "timeout-near-p99",
			severity: probelint.Warning, fix: "timeoutSeconds to 4"},
		{name: "far", text: live, measured: probelint.Measured{P99: 500 * time.Millisecond}},
		{name: "readiness restarts nothing", text: pod("readinessProbe: {httpGet: {port: http}}"),
			measured: probelint.Measured{P99: 800 * time.Millisecond}, rule: "timeout-near-p99",
			severity: probelint.Info},
	} {
		t.Run(v.name, v.run)
	}
}

func TestOtherRules(t *testing.T) {
	for _, v := range []ruleTest{
		{name: "no handler", text: pod("livenessProbe: {periodSeconds: 1}"), rule: "invalid-probe",
			severity: probelint.Error, says: "does not say how"},
		{name: "two handlers", text: pod("livenessProbe: {tcpSocket: {port: 1}, exec: {command: [a]}}"),
			rule: "invalid-probe", severity: probelint.Error, says: "2 ways"},
		{name: "threshold", text: pod("livenessProbe: {tcpSocket: {port: 1}, successThreshold: 2}"),
			rule: "invalid-probe", severity: probelint.Error, says: "successThreshold is 2"},
		{name: "readiness grace", text: pod("readinessProbe: {tcpSocket: {port: 1}, terminationGracePeriodSeconds: 2}"),
			rule: "invalid-probe", severity: probelint.Error},
		{name: "negative", text: pod("readinessProbe: {tcpSocket: {port: 1}, periodSeconds: -2}"),
			rule: "invalid-probe", severity: probelint.Error, says: "periodSeconds is -2"},
		{name: "init container",
			text: "kind: Pod\nspec: {initContainers: [{name: i, livenessProbe: {tcpSocket: {port: 1}}}], containers: " +
				"[{name: c}]}", rule: "invalid-probe", severity: probelint.Error, says: "no sidecar"},
		{name: "sidecar",
			text: "kind: Pod\nspec: {initContainers: [{name: i, restartPolicy: Always, livenessProbe: {tcpSocket: " +
				"{port: 1}}}], containers: [{name: c}]}"},
		{name: "port", text: pod("readinessProbe: {tcpSocket: {port: web}}"), rule: "unknown-port",
			severity: probelint.Error, says: "never becomes ready", fix: "one of: http"},
		{name: "order",
			text: pod("livenessProbe: {tcpSocket: {port: 1}, periodSeconds: 5}\nreadinessProbe: {tcpSocket: {port: " +
				"http}}"), rule: "liveness-before-readiness", severity: probelint.Warning,
			says: "= 15 s, but taken out of traffic only after 3 × 10 = 30 s", fix: "at least 7"},
		{name: "hair trigger", text: pod("livenessProbe: {tcpSocket: {port: 1}, failureThreshold: 1}"),
			rule: "liveness-hair-trigger", severity: probelint.Warning},
		{name: "never",
			text: "kind: Job\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, livenessProbe: " +
				"{tcpSocket: {port: 1}}}]}}}", rule: "liveness-ends-pod", severity: probelint.Info, says: "30 s"},
		{name: "period", text: pod("livenessProbe: {tcpSocket: {port: 1}, timeoutSeconds: 20}"),
			rule: "timeout-over-period", severity: probelint.Warning, says: "3 × 20 s = 60 s instead of 30 s"},
		{name: "late", text: pod("readinessProbe: {tcpSocket: {port: 1}, initialDelaySeconds: 60}"),
			rule: "late-readiness", severity: probelint.Info, says: "60 s"},
		{name: "served unasked", text: pod("command: [x]"), service: true, rule: "no-readiness",
			severity: probelint.Warning, says: "Service svc"},
		{name: "served and asked", text: pod("readinessProbe: {tcpSocket: {port: 1}}"), service: true},
		{name: "not served", text: pod("command: [x]")},
		{name: "host", text: pod("readinessProbe: {tcpSocket: {port: 1, host: 127.0.0.1}}"), rule: "foreign-host",
			severity: probelint.Warning, says: "the node itself"},
		{name: "grace", text: pod("livenessProbe: {tcpSocket: {port: 1}, terminationGracePeriodSeconds: 60}"),
			rule: "long-probe-grace", severity: probelint.Warning,
			says: "gets 60 s to stop, longer than the Pod's 30 s"},
		{name: "preStop", text: pod("lifecycle: {preStop: {sleep: {seconds: 30}}}"), rule: "prestop-eats-grace",
			severity: probelint.Warning, says: "sleeps 30 s of the Pod's 30 s"},
		{name: "typo", text: pod("livenesProbe: {tcpSocket: {port: 1}}"), rule: "unknown-field",
			severity: probelint.Error, says: "no such field"},
	} {
		t.Run(v.name, v.run)
	}
}

func TestRead(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"pod", `{kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}`, "Pod/a spec"},
		{"cron job",
			`{kind: CronJob, metadata: {name: a}, spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: ` +
				`c}]}}}}}}`, "CronJob/a spec.jobTemplate.spec.template.spec"},
		{"template", `{kind: PodTemplate, metadata: {name: a}, template: {spec: {containers: [{name: c}]}}}`,
			"PodTemplate/a template.spec"},
		{"list", `{kind: List, items: [{kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}, {kind: ` +
			`StatefulSet, metadata: {name: b}, spec: {template: {spec: {containers: [{name: c}]}}}}]}`,
			"Pod/a spec, StatefulSet/b spec.template.spec"},
		{"custom resource",
			`{kind: JobSet, metadata: {name: a}, spec: {replicatedJobs: [{template: {spec: {template: {spec: ` +
				`{containers: [{name: c}]}}}}}]}}`, "JobSet/a spec.replicatedJobs[0].template.spec.template.spec"},
		{"no Pod", `{kind: ConfigMap, metadata: {name: a}, data: {x: y}}`, ""},
		{"service", selecting, "Service/svc"},
		{"no kind", `{a: b}`, "error: the object has no kind"},
		{"wrong type", `{kind: Pod, spec: {containers: [{name: c, livenessProbe: 3}]}}`, "error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := map[string]any{}
			if err := yaml.Unmarshal([]byte(tc.text), &m); err != nil {
				t.Fatal(err)
			}
			found, services, err := probelint.Read("f", m)
			var got []string
			for _, w := range found {
				got = append(got, fmt.Sprintf("%s/%s %s", w.Kind, w.Name, w.Path))
			}
			for _, s := range services {
				got = append(got, "Service/"+s.Name)
			}
			line := strings.Join(got, ", ")
			if err != nil {
				line = "error: " + err.Error()
			}
			if line != tc.want && !(tc.want == "error" && err != nil) {
				t.Errorf("got %q, want %q", line, tc.want)
			}
		})
	}
}
