package lifecycle

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Image policies and what containers are refused for.
//
// row: CRI-07
// row: SEC-02
func TestImagesAndRefusals(t *testing.T) { eachRuntime(t, imageCases) }

var imageCases = []Case{
	{
		name: "Never and not there",
		spec: `{containers: [{name: app, image: "{registry}/absent:1", imagePullPolicy: Never}]}`,
		steps: func(l *podLife) {
			s := status(l.state("app", "waiting ErrImageNeverPull"), "app")
			if want := `Container image "` + l.registry +
				`/absent:1" is not present with pull policy of Never`; s.State.Waiting.Message != want {
				l.Errorf("message %q, want %q", s.State.Waiting.Message, want)
			}
		},
		expected: expected{phases: "Pending", conditions: "Ready=False/ContainersNotReady",
			events: map[string]string{"app": "ErrImageNeverPull Failed"}},
	},
	{
		name: "not in the registry",
		spec: `{containers: [{name: app, image: "{registry}/absent:1"}]}`,
		steps: func(l *podLife) {
			l.state("app", "waiting ErrImagePull")
			l.state("app", "waiting ImagePullBackOff")
			l.event("app", "BackOff", `Back-off pulling image "`+l.registry+`/absent:1"`)
		},
		expected: expected{phases: "Pending", events: map[string]string{"app": "Pulling Failed BackOff"}},
	},
	{
		name: "one of two is missing: the other runs",
		spec: `{containers: [{name: good, command: ` + runs + `}, {name: bad, image: "{registry}/absent:1"}]}`,
		steps: func(l *podLife) {
			l.state("bad", "waiting ImagePullBackOff")
			l.state("good", "running")
		},
		expected: expected{phases: "Pending", conditions: "Ready=False/ContainersNotReady"},
	},
	{
		name: "name that is none",
		spec: `{containers: [{name: app, image: "UPPER/Case"}]}`,
		steps: func(l *podLife) {
			p := l.state("app", "waiting InvalidImageName")
			if m := status(p, "app").State.Waiting.Message; !strings.Contains(m, "repository name") {
				l.Errorf("message: got %q, want it to contain %q", m, "repository name")
			}
		},
		expected: expected{events: map[string]string{"app": "InspectFailed Failed"}},
	},
	{
		name: "Always asks the registry",
		spec: `{containers: [{name: app, image: "{registry}/fresh:1", imagePullPolicy: Always, command: ` + runs +
			`}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.event("app", "Pulled", `Successfully pulled image "`+l.registry+`/fresh:1"`)
		},
		expected: expected{conditions: allTrue, events: map[string]string{"app": "Pulling Pulled Created Started"}},
	},
	{
		name: "Pending while the image is pulled", // row: CRI-21
		spec: `{containers: [{name: app, image: "{registry}/slow:1", command: ` + runs + `}]}`,
		steps: func(l *podLife) {
			l.event("app", "Pulling", `Pulling image "`+l.registry+`/slow:1"`)
			p := l.ready()
			pulling, up := l.h.containerEvent("app", "Pulling").FirstTimestamp, status(p, "app").State.Running.StartedAt
			if took := up.Sub(pulling.Time); took < time.Second { // both in whole seconds
				l.Errorf("Running %s after the pull of two seconds began", took)
			}
		},
		expected: expected{phases: "Pending Running",
			events: map[string]string{"app": "Pulling Pulled Created Started"}},
	},
	{
		name: "IfNotPresent takes what is there",
		spec: `{containers: [{name: app, imagePullPolicy: IfNotPresent, command: ` + runs + `}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.event("app",
				"Pulled", `Container image "`+busybox+`" already present on machine and can be accessed by the pod`)
		},
		expected: expected{events: map[string]string{"app": "Pulled Created Started"}},
	},
	{
		name: "runAsNonRoot with an image of root",
		spec: `{containers: [{name: app, securityContext: {runAsNonRoot: true}}]}`,
		steps: func(l *podLife) {
			p := l.state("app", "waiting CreateContainerConfigError")
			want := `container has runAsNonRoot and image will run as root (pod: "p_` + l.ns + `(` + string(p.UID) +
				`)", container: app)`
			if got := status(p, "app").State.Waiting.Message; got != want {
				l.Errorf("message %q, want %q", got, want)
			}
		},
		expected: expected{phases: "Pending", events: map[string]string{"app": "Pulled Failed"}},
	},
	{
		name: "runAsNonRoot with a user",
		spec: `{securityContext: {runAsNonRoot: true, runAsUser: 1234, runAsGroup: 99}, containers: [{name: app,` +
			` command: ` + runs + `}]}`,
		steps:    func(l *podLife) { l.ready(); l.prints("app", "id -u", "1234"); l.prints("app", "id -g", "99") },
		expected: expected{conditions: allTrue},
	},
	{
		name: "ConfigMap that comes later",
		spec: `{containers: [{name: app, command: ` + runs +
			`, env: [{name: A, valueFrom: {configMapKeyRef: {name: later, key: a}}}]}]}`,
		steps: func(l *podLife) {
			s := status(l.state("app", "waiting CreateContainerConfigError"), "app")
			if s.State.Waiting.Message != `configmap "later" not found` {
				l.Errorf("message: got %q, want %q", s.State.Waiting.Message, `configmap "later" not found`)
			}
			l.create("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: later}\ndata: {a: \"1\"}")
			l.ready()
			l.prints("app", "echo $A", "1")
		},
		expected: expected{phases: "Pending Running", states: map[string]string{"app": "running"}},
	},
	{
		name: "resize in place",
		spec: `{containers: [{name: app, command: ` + runs +
			`, resources: {requests: {cpu: 50m, memory: 32Mi}, limits: {cpu: 100m, memory: 64Mi}}}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.patch(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"60m","memory":"48Mi"},`+
				`"limits":{"cpu":"200m","memory":"96Mi"}}}]}}`, "resize")
			p := l.until("new resources in the status", func(p *corev1.Pod) bool {
				r := status(p, "app").Resources
				return r != nil && r.Limits.Cpu().String() == "200m" && r.Limits.Memory().String() == "96Mi"
			})
			if a := status(p, "app").AllocatedResources; a.Cpu().String() != "60m" || a.Memory().String() != "48Mi" {
				l.Errorf("allocated %v", a)
			}
		},
		expected: expected{phases: "Pending Running", states: map[string]string{"app": "running"}},
	},
}
