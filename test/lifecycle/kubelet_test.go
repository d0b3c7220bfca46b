package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The kubelet is killed in the middle of a life and started again. These cases have the node to
// themselves.
//
// row: OPS-17
func TestKubeletKilled(t *testing.T) {
	for name, at := range map[string]func(*testing.T) *runtimeUnderTest{"fake": fakeRuntime, "containerd": containerd} {
		t.Run(name, func(t *testing.T) {
			p := at(t)
			for _, c := range killedCases {
				t.Run(c.name, func(t *testing.T) { c.live(t, p) })
			}
		})
	}
}

var killedCases = []Case{
	{
		name: "nothing happens to what runs",
		spec: `{initContainers: [{name: i, command: [sh, -c, "echo i >> /m/log"], ` + marksMounted +
			`}, {name: side, restartPolicy: Always, command: ` + runs + `}],
			containers: [{name: app, command: [sh, -c, "touch /tmp/ok; trap 'exit 0' TERM; touch /tmp/up; while true;
			do sleep 0.1; done"], readinessProbe: {exec: {command: [cat, /tmp/ok]}, periodSeconds: 1}}], ` +
			marksVolume + `}`,
		steps: func(l *podLife) {
			l.ready()
			app, side := l.id("app"), l.id("side")
			l.runtimeUnderTest.kill(l)
			l.start(l)
			l.shToTheEnd("app", "rm /tmp/ok") // what the new kubelet sees first is a probe that fails
			l.unready()
			l.sh("app", "touch /tmp/ok")
			l.ready()
			if nowApp, nowSide := l.id("app"), l.id("side"); nowApp != app || nowSide != side {
				l.Errorf("containers were replaced: got %s and %s, want %s and %s", nowApp, nowSide, app, side)
			}
			l.wrote("i")
		},
		expected: expected{phases: "Pending Running", states: map[string]string{"i": "ended 0 Completed",
			"side": "running", "app": "running"}},
	},
	{
		name: "a container ends while it is away",
		spec: `{restartPolicy: OnFailure, containers: [{name: app, command: [sh, -c, "test -e /m/x && exit 0; until ` +
			`test -e /m/x; do sleep 0.1; done; exit 4"], ` + marksMounted + `}], ` + marksVolume + `}`,
		steps: func(l *podLife) {
			l.ready()
			id := l.id("app")
			l.runtimeUnderTest.kill(l)
			l.mark("x")
			l.waitForExit(id)
			l.start(l)
			p := l.phase(corev1.PodSucceeded)
			if e := status(p, "app").LastTerminationState.Terminated; e == nil || e.ExitCode != 4 {
				l.Errorf("last state %+v", status(p, "app").LastTerminationState)
			}
		},
		expected: expected{states: map[string]string{"app": "ended 0 Completed x1"}},
	},
	{
		name: "deleted while it is away",
		spec: `{containers: [{name: app, command: [sh, -c, "trap 'echo term >> /m/log; exit 0' TERM; touch /tmp/up; ` +
			`while true; do sleep 0.1; done"], ` + marksMounted + `}], ` + marksVolume + `}`,
		steps: func(l *podLife) {
			l.ready()
			l.runtimeUnderTest.kill(l)
			l.delete(10)
			l.until("deletion", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
			l.start(l)
			l.waitForDeletion()
			l.wrote("term")
		},
		expected: expected{states: map[string]string{"app": "ended 0 Completed"}},
	},
	{
		name: "killed in the middle of a stop",
		spec: `{containers: [{name: app, command: [sh, -c, "trap 'echo term >> /m/log; until test -e /m/go; do sleep ` +
			`0.1; done; exit 0' TERM; touch /tmp/up; while true; do sleep 0.1; done"], ` + marksMounted + `}], ` +
			marksVolume + `}`,
		steps: func(l *podLife) {
			l.ready()
			l.delete(60)
			l.wrote("term")
			l.runtimeUnderTest.kill(l)
			l.mark("go")
			l.start(l)
			l.waitForDeletion()
		},
		expected: expected{states: map[string]string{"app": "ended 0 Completed"}},
	},
}
