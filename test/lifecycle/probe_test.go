package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Probes of every kind, and hooks.
func TestProbesAndHooks(t *testing.T) { eachRuntime(t, probeCases) }

// web serves the files of /www on port 8080.
const web = `mkdir -p /www; echo ok > /www/ok; httpd -p 8080 -h /www; trap 'exit 0' TERM; touch /tmp/up; while true; ` +
	`do sleep 0.1; done`

var probeCases = []Case{
	{
		name: "readiness over http comes and goes",
		spec: `{containers: [{name: app, command: [sh, -c, "` + web + `"], ports: [{name: web, containerPort: 8080}],
			readinessProbe: {httpGet: {path: /ok, port: web}, periodSeconds: 1, failureThreshold: 2}}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.sh("app", "rm /www/ok")
			l.unready()
			l.event("app", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 404")
			l.sh("app", "echo ok > /www/ok")
			l.ready()
		},
		expected: expected{phases: "Pending Running", states: map[string]string{"app": "running"}},
	},
	{
		name: "liveness kills and restarts",
		spec: `{terminationGracePeriodSeconds: 5, containers: [{name: app, command: [sh, -c,
			"touch /tmp/ok; trap 'exit 0' TERM; touch /tmp/up; while true; do sleep 0.1; done"],
			livenessProbe: {exec: {command: [cat, /tmp/ok]}, periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 10,
			initialDelaySeconds: 1}}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.shToTheEnd("app", "rm /tmp/ok")
			l.restarted("app", 1)
			l.event("app", "Unhealthy", "Liveness probe failed: cat: can't open '/tmp/ok': No such file or directory")
			l.event("app", "Killing", "Container app failed liveness probe, will be restarted")
		},
		expected: expected{states: map[string]string{"app": "running x1"},
			events: map[string]string{"app": "Pulled Created Started Unhealthy Killing"}},
	},
	{
		name: "startup probe that gives up, over tcp",
		spec: `{terminationGracePeriodSeconds: 1, containers: [{name: app, command: ` + runs +
			`, startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, failureThreshold: 2}}]}`,
		steps: func(l *podLife) {
			p := l.restarted("app", 1)
			if *p.Started || p.Ready {
				l.Errorf("started %v, ready %v before the probe succeeded", *p.Started, p.Ready)
			}
			l.event("app", "Unhealthy", "Startup probe failed: dial tcp")
			l.event("app", "Killing", "Container app failed startup probe, will be restarted")
		},
		expected: expected{phases: "Pending Running", conditions: "Ready=False/ContainersNotReady"},
	},
	{
		name: "startup over tcp, then liveness over http",
		spec: `{containers: [{name: app, command: [sh, -c, "sleep 1.5; ` + web +
			`"], startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, failureThreshold: 60},
			livenessProbe: {httpGet: {path: /ok, port: 8080}, periodSeconds: 1, failureThreshold: 1,
			timeoutSeconds: 20}}]}`,
		steps:    func(l *podLife) { l.ready() },
		expected: expected{conditions: allTrue, states: map[string]string{"app": "running"}},
	},
	{
		name: "grpc serves",
		spec: `{containers: [{name: app, image: "` + agnhost +
			`", args: [grpc-health-checking, --service, live], readinessProbe: {grpc: {port: 5000, service: live},` +
			` periodSeconds: 1}}]}`,
		steps:    func(l *podLife) { l.ready() },
		expected: expected{conditions: allTrue, states: map[string]string{"app": "running"}},
	},
	{
		name: "grpc does not know the service",
		spec: `{containers: [{name: app, image: "` + agnhost +
			`", args: [grpc-health-checking, --service, live], readinessProbe: {grpc: {port: 5000, service: other},` +
			` periodSeconds: 1}}]}`,
		steps: func(l *podLife) {
			l.event("app", "Unhealthy",
				"Readiness probe failed: error: health rpc probe failed: rpc error: code = NotFound desc = unknown "+
					"service")
		},
		expected: expected{conditions: "Ready=False/ContainersNotReady", states: map[string]string{"app": "running"}},
	},
	{
		name: "postStart fails",
		spec: `{terminationGracePeriodSeconds: 1, containers: [{name: app, command: ` + runs +
			`, lifecycle: {postStart: {exec: {command: [sh, -c, "sleep 0.5; exit 3"]}}}}]}`,
		steps: func(l *podLife) {
			l.event("app", "FailedPostStartHook", "PostStartHook failed")
			l.event("app", "Killing", "FailedPostStartHook")
			l.until("a restart", func(p *corev1.Pod) bool { return status(p, "app").RestartCount >= 1 })
		},
	},
	{
		name: "postStart, then preStop, then TERM",
		spec: `{terminationGracePeriodSeconds: 20, containers: [{name: app, command: [sh, -c, "trap 'echo term >> ` +
			`/m/log; exit 0' TERM; touch /tmp/up; while true; do sleep 0.1; done"], ` + marksMounted + `,
			lifecycle: {postStart: {exec: {command: [sh, -c, "sleep 0.5; echo hello >> /m/log"]}},
			preStop: {exec: {command: [sh, -c, "sleep 1; echo bye >> /m/log"]}}}}], ` + marksVolume + `}`,
		steps: func(l *podLife) {
			l.ready()
			l.delete(20)
			l.waitForDeletion()
			l.wrote("hello bye term")
		},
		expected: expected{states: map[string]string{"app": "ended 0 Completed"},
			events: map[string]string{"app": "Pulled Created Started Killing"}},
	},
	{
		name: "preStop that uses the grace up leaves two seconds for TERM",
		spec: `{terminationGracePeriodSeconds: 2, containers: [{name: app, command: [sh, -c, "trap 'sleep 0.7; echo ` +
			`term >> /m/log; exit 0' TERM; touch /tmp/up; while true; do sleep 0.1; done"], ` + marksMounted + `,
			lifecycle: {preStop: {exec: {command: [sh, -c, "sleep 30; echo never >> /m/log"]}}}}], ` + marksVolume +
			`}`,
		steps: func(l *podLife) {
			l.ready()
			l.delete(2)
			l.waitForDeletion()
			l.wrote("term")
		},
		expected: expected{states: map[string]string{"app": "ended 0 Completed"},
			events: map[string]string{"app": "Pulled Created Started Killing FailedPreStopHook"}},
	},
	{
		name: "preStop sleeps",
		spec: `{terminationGracePeriodSeconds: 10, containers: [{name: app, command: ` + runs +
			`, lifecycle: {preStop: {sleep: {seconds: 1}}}}]}`,
		steps:    func(l *podLife) { l.ready(); l.delete(10); l.waitForDeletion() },
		expected: expected{states: map[string]string{"app": "ended 0 Completed"}},
	},
}
