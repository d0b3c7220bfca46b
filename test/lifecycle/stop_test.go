package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Deaths: by grace, by force, from outside, of the sandbox.
//
// row: ISE-08
// row: ISE-09
// row: ISE-12
// row: CRI-15
// row: CRI-27
func TestTermination(t *testing.T) { eachRuntime(t, stopCases) }

var stopCases = []Case{
	{
		name: "TERM ignored: killed when the grace is over",
		spec: `{containers: [{name: app, command: [sh, -c, "trap '' TERM; touch /tmp/up; while true; do sleep 0.1; ` +
			`done"]}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.delete(2)
			start := time.Now()
			l.waitForDeletion()
			if took := time.Since(start); took < 2*time.Second {
				l.Errorf("gone after %s, the grace is 2 s", took)
			}
		},
		expected: expected{phases: "Pending Running Failed", states: map[string]string{"app": "ended 137 Error"},
			events: map[string]string{"app": "Pulled Created Started Killing"}},
	},
	{
		name: "TERM answered with another code",
		spec: `{terminationGracePeriodSeconds: 10, containers: [{name: app, command: [sh, -c, "trap 'exit 3' TERM; ` +
			`touch /tmp/up; while true; do sleep 0.1; done"]}]}`,
		steps: func(l *podLife) { l.ready(); l.delete(10); l.waitForDeletion() },
		expected: expected{phases: "Pending Running Failed", conditions: "Ready=False/PodFailed",
			states: map[string]string{"app": "ended 3 Error"}},
	},
	{
		name: "the grace is made shorter while it runs",
		spec: `{containers: [{name: app, command: [sh, -c, "trap '' TERM; touch /tmp/up; while true; do sleep 0.1; ` +
			`done"]}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.delete(600)
			l.event("app", "Killing", "Stopping container app")
			l.delete(1)
			l.waitForDeletion()
		},
		expected: expected{states: map[string]string{"app": "ended 137 Error"}},
	},
	{
		name: "by force",
		spec: `{containers: [{name: app, command: [sh, -c, "trap '' TERM; touch /tmp/up; while true; do sleep 0.1; ` +
			`done"]}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.delete(0)
			l.waitForDeletion()
		},
		expected: expected{phases: "Pending Running", states: map[string]string{"app": "running"},
			events: map[string]string{"app": "Pulled Created Started Killing"}},
	},
	{
		name: "deleted in an init container",
		spec: `{initContainers: [{name: i, command: ` + runs + `}], containers: [{name: app}]}`,
		steps: func(l *podLife) {
			l.state("i", "running")
			l.up("i")
			l.delete(10)
			l.waitForDeletion()
		},
		expected: expected{states: map[string]string{"i": "ended 0 Completed"},
			events: map[string]string{"i": "Pulled Created Started Killing", "app": ""}},
	},
	{
		name:  "deleted when it has ended",
		spec:  `{restartPolicy: Never, containers: [{name: app, command: [sh, -c, "exit 0"]}]}`,
		steps: func(l *podLife) { l.phase(corev1.PodSucceeded); l.delete(30); l.waitForDeletion() },
		expected: expected{states: map[string]string{"app": "ended 0 Completed"},
			events: map[string]string{"app": "Pulled Created Started"}},
	},
	{
		name: "container killed from outside",
		spec: `{containers: [{name: app, command: ` + runs + `}, {name: other, command: ` + runs + `}]}`,
		steps: func(l *podLife) {
			l.ready()
			box := l.sandboxes()[0].Id
			l.kill("app")
			s := l.restarted("app", 1)
			if e := s.LastTerminationState.Terminated; e == nil || e.ExitCode != 137 || e.Reason != "Error" {
				l.Errorf("last state %+v", s.LastTerminationState)
			}
			l.ready()
			if list := l.sandboxes(); len(list) != 1 || list[0].Id != box {
				l.Errorf("sandboxes %v, want only %s", list, box)
			}
		},
		expected: expected{conditions: allTrue, states: map[string]string{"app": "running x1", "other": "running"},
			events: map[string]string{"": "Scheduled", "other": "Pulled Created Started"}},
	},
	{
		name: "sandbox killed from outside",
		spec: `{terminationGracePeriodSeconds: 2, initContainers: [{name: i, command: [sh, -c,
			"echo i >> /m/log; cat /d/x >> /m/log; echo found > /d/x"], volumeMounts: [{name: marks, mountPath: /m},
			{name: d, mountPath: /d}]}],
			containers: [{name: app, command: [sh, -c, "echo app >> /m/log; trap 'exit 0' TERM; touch /tmp/up;
			while true; do sleep 0.1; done"], ` + marksMounted + `}],
			volumes: [{name: marks, hostPath: {path: "{marks}"}}, {name: d, emptyDir: {}}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.killSandbox()
			l.restarted("app", 1)
			l.ready()
			// A runtime that ends the container first may see it started once more in the sandbox
			// that is about to end.
			l.eventually("the init container ran again and found its file", func() error {
				if got := l.marked(); !strings.HasPrefix(got, "i app") || !strings.HasSuffix(got, "i found app") {
					return fmt.Errorf("containers wrote %q", got)
				}
				return nil
			})
			l.event("", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
			for _, s := range l.sandboxes() {
				if s.State == 0 && s.Metadata.Attempt != 1 {
					l.Errorf("the sandbox that is ready is attempt %d", s.Metadata.Attempt)
				}
			}
		},
		expected: expected{conditions: allTrue},
	},
	{
		name: "of dead containers the newest is kept",
		spec: `{containers: [{name: app, command: ` + runs + `}]}`,
		steps: func(l *podLife) {
			l.ready()
			l.kill("app")
			l.restarted("app", 1)
			l.kill("app") // the second restart waits for ten seconds
			l.state("app", "waiting CrashLoopBackOff x1")
			l.restarted("app", 2)
			l.eventually("one dead container, of the run before", func() error {
				list, err := l.runtime.ListContainers(l.ctx,
					&runtimeapi.ContainerFilter{PodSandboxId: l.sandboxes()[0].Id})
				if err != nil {
					return err
				}
				var dead []uint32
				for _, c := range list {
					if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
						dead = append(dead, c.Metadata.Attempt)
					}
				}
				if len(dead) != 1 || dead[0] != 1 {
					return fmt.Errorf("attempts %v are kept", dead)
				}
				return nil
			})
		},
	},
	{
		name: "sandbox of an ended Pod killed: nothing runs again",
		spec: `{restartPolicy: Never, containers: [{name: app, command: [sh, -c, "exit 0"]}]}`,
		steps: func(l *podLife) {
			l.phase(corev1.PodSucceeded)
			l.killSandbox()
			l.patch(`{"metadata":{"labels":{"look":"again"}}}`)
			l.until("the label", func(p *corev1.Pod) bool { return p.Labels["look"] == "again" })
		},
		expected: expected{states: map[string]string{"app": "ended 0 Completed"},
			events: map[string]string{"": "Scheduled", "app": "Pulled Created Started"}},
	},
}
