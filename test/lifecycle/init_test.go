package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// marksMounted writes a word where the test reads it.
const marksMounted = `volumeMounts: [{name: marks, mountPath: /m}]`
const marksVolume = `volumes: [{name: marks, hostPath: {path: "{marks}"}}]`

// Init containers, sidecars, ephemeral containers.
//
// row: RST-03
// row: RST-04
// row: RST-05
// row: ISE-01
// row: ISE-02
// row: ISE-20
// row: ISE-21
// row: ISE-22
// row: ISE-24
// row: ISE-30
func TestInitAndSidecars(t *testing.T) { eachRuntime(t, initCases) }

var initCases = []Case{
	{
		name: "init containers in order",
		spec: `{initContainers: [{name: one, command: [sh, -c, "echo one >> /m/log"], ` + marksMounted +
			`}, {name: two, command: [sh, -c, "echo two >> /m/log"], ` + marksMounted + `}],
			containers: [{name: app, command: [sh, -c, "echo app >> /m/log; trap 'exit 0' TERM; touch /tmp/up;
			while true; do sleep 0.1; done"], ` + marksMounted + `}], ` + marksVolume + `}`,
		steps: func(l *podLife) {
			p := l.ready()
			l.wrote("one two app")
			one, two, app := status(p, "one").State.Terminated, status(p, "two").State.Terminated,
				status(p, "app").State.Running
			if one.FinishedAt.After(two.StartedAt.Time) || two.FinishedAt.After(app.StartedAt.Time) {
				l.Errorf("one %v to %v, two %v to %v, app %v", one.StartedAt, one.FinishedAt, two.StartedAt,
					two.FinishedAt, app.StartedAt)
			}
		},
		expected: expected{
			phases: "Pending Running", conditions: allTrue, states: map[string]string{"one": "ended 0 Completed",
				"two": "ended 0 Completed", "app": "running"},
			events: map[string]string{"one": "Pulled Created Started", "two": "Pulled Created Started",
				"app": "Pulled Created Started"},
		},
	},
	{
		name: "failing init container under Never",
		spec: `{restartPolicy: Never, initContainers: [{name: bad, command: [sh, -c, "exit 7"]}, {name: next}],` +
			` containers: [{name: app}]}`,
		steps: func(l *podLife) { l.phase(corev1.PodFailed) },
		expected: expected{
			phases: "Pending Failed", conditions: "Initialized=False/ContainersNotInitialized Ready=False/PodFailed",
			states: map[string]string{"bad": "ended 7 Error", "next": "waiting PodInitializing",
				"app": "waiting PodInitializing"},
			events: map[string]string{"bad": "Pulled Created Started", "next": "", "app": ""},
		},
	},
	{
		name: "failing init container is tried again under Always and not once more when it succeeded",
		spec: `{initContainers: [{name: i, command: [sh, -c, "echo i >> /m/log; test -e /m/x && exit 0; touch /m/x; ` +
			`exit 1"], ` + marksMounted + `}],
			containers: [{name: app, command: ` + runs + `}], ` + marksVolume + `}`,
		steps: func(l *podLife) {
			l.ready()
			l.kill("app")
			l.restarted("app", 1)
			l.wrote("i i")
		},
		expected: expected{phases: "Pending Running", states: map[string]string{"i": "ended 0 Completed x1",
			"app": "running x1"}},
	},
	{
		name: "sidecar holds up the next until its startup probe succeeds",
		spec: `{initContainers: [{name: side, restartPolicy: Always, command: [sh, -c,
				"sleep 2; touch /tmp/up; echo side >> /m/log; trap 'exit 0' TERM; touch /tmp/up; while true;
				do sleep 0.1; done"],
				startupProbe: {exec: {command: [cat, /tmp/up]}, periodSeconds: 1, failureThreshold: 60}, ` +
			marksMounted + `},
				{name: i, command: [sh, -c, "echo i >> /m/log"], ` + marksMounted + `}],
			containers: [{name: app, command: [sh, -c, "echo app >> /m/log; trap 'exit 0' TERM; touch /tmp/up;
			while true; do sleep 0.1; done"], ` + marksMounted + `}], ` + marksVolume + `}`,
		steps: func(l *podLife) { l.ready(); l.wrote("side i app") },
		expected: expected{conditions: allTrue, states: map[string]string{"side": "running", "i": "ended 0 Completed",
			"app": "running"}},
	},
	{
		name: "sidecars stop last and in reverse",
		spec: `{terminationGracePeriodSeconds: 20, initContainers: [
				{name: first, restartPolicy: Always, command: [sh, -c,
				"trap 'echo first >> /m/log; exit 0' TERM; touch /tmp/up; while true; do sleep 0.1; done"], ` +
			marksMounted + `},
				{name: second, restartPolicy: Always, command: [sh, -c,
				"trap 'sleep 0.5; echo second >> /m/log; exit 0' TERM; touch /tmp/up;
				while true; do sleep 0.1; done"], ` +
			marksMounted + `}],
			containers: [{name: app, command: [sh, -c, "trap 'sleep 1; echo app >> /m/log; exit 0' TERM;
			touch /tmp/up; while true; do sleep 0.1; done"], ` + marksMounted + `}], ` + marksVolume + `}`,
		steps: func(l *podLife) {
			l.ready()
			l.delete(20)
			l.waitForDeletion()
			l.wrote("app second first")
		},
		expected: expected{states: map[string]string{"first": "ended 0 Completed", "second": "ended 0 Completed",
			"app": "ended 0 Completed"},
			events: map[string]string{"first": "Pulled Created Started Killing",
				"second": "Pulled Created Started Killing", "app": "Pulled Created Started Killing"}},
	},
	{
		name: "sidecar is restarted under Never and ends with the Pod",
		spec: `{restartPolicy: Never, initContainers: [{name: side, restartPolicy: Always, command: [sh, -c, "test ` +
			`-e ` +
			`/m/x || { touch /m/x; exit 0; }; trap 'exit 0' TERM; touch /tmp/up; while true; do sleep 0.1; done"], ` +
			marksMounted + `}],
			containers: [{name: app, command: [sh, -c, "until test -e /m/done; do sleep 0.1; done"], ` + marksMounted +
			`}], ` + marksVolume + `}`,
		steps: func(l *podLife) {
			l.restarted("side", 1)
			l.sh("side", "touch /m/done") // in app it would end with the container
			l.phase(corev1.PodSucceeded)
		},
		expected: expected{states: map[string]string{"side": "ended 0 Completed x1", "app": "ended 0 Completed"}},
	},
	{
		name: "sidecar that is killed is restarted alone",
		spec: `{initContainers: [{name: side, restartPolicy: Always, command: ` + runs +
			`}], containers: [{name: app, command: ` + runs + `}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.kill("side")
			l.restarted("side", 1)
		},
		expected: expected{states: map[string]string{"side": "running x1", "app": "running"},
			events: map[string]string{"app": "Pulled Created Started"}},
	},
	{
		name: "ephemeral container runs once",
		spec: `{containers: [{name: app, command: ` + runs + `}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.patch(`{"spec":{"ephemeralContainers":[{"name":"debug","image":"`+busybox+
				`","command":["sh","-c","exit 5"],"targetContainerName":"app"}]}}`, "ephemeralcontainers")
			l.state("debug", "ended 5 Error")
		},
		expected: expected{phases: "Pending Running", conditions: allTrue,
			states: map[string]string{"debug": "ended 5 Error", "app": "running"},
			events: map[string]string{"debug": "Pulled Created Started"}},
	},
}
