package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// runs is a container's command that ends with 0 on TERM.
const runs = `[sh, -c, "trap 'exit 0' TERM; touch /tmp/up; while true; do sleep 0.1; done"]`

const allTrue = "PodScheduled=True PodReadyToStartContainers=True Initialized=True ContainersReady=True Ready=True"

// From creation to the end, for every restart policy and exit code.
//
// row: RST-01
// row: RST-02
func TestStartAndEnd(t *testing.T) { eachRuntime(t, startCases) }

var startCases = []Case{
	{
		name: "starts and is deleted",
		spec: `{containers: [{name: app, command: ` + runs + `}]}`,
		steps: func(l *podLife) {
			p := l.ready()
			if len(conditions(p)) != 5 {
				l.Errorf("conditions %v, want five", conditions(p))
			}
			l.compare(expected{phases: "Pending Running", conditions: allTrue,
				states: map[string]string{"app": "running"}})
			if p.Status.PodIP == "" || p.Status.HostIP == "" || p.Status.QOSClass != corev1.PodQOSBestEffort ||
				p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
				l.Errorf("%q on %q, %s, %s", p.Status.PodIP, p.Status.HostIP, p.Status.QOSClass, p.Spec.RestartPolicy)
			}
			l.delete(30)
			l.waitForDeletion()
		},
		expected: expected{
			phases: "Pending Running Succeeded", conditions: "Ready=False/PodCompleted",
			states: map[string]string{"app": "ended 0 Completed"},
			events: map[string]string{"": "Scheduled", "app": "Pulled Created Started Killing"},
		},
	},
	{
		name:  "Never, exit 0",
		spec:  `{restartPolicy: Never, containers: [{name: app, command: [sh, -c, "exit 0"]}]}`,
		steps: func(l *podLife) { l.phase(corev1.PodSucceeded) },
		expected: expected{
			conditions: "Initialized=True/PodCompleted Ready=False/PodCompleted ContainersReady=False/PodCompleted",
			states:     map[string]string{"app": "ended 0 Completed"},
			events:     map[string]string{"app": "Pulled Created Started"},
		},
	},
	{
		name:  "Never, exit 3",
		spec:  `{restartPolicy: Never, containers: [{name: app, command: [sh, -c, "exit 3"]}]}`,
		steps: func(l *podLife) { l.phase(corev1.PodFailed) },
		expected: expected{
			conditions: "Initialized=True Ready=False/PodFailed ContainersReady=False/PodFailed",
			states:     map[string]string{"app": "ended 3 Error"},
			events:     map[string]string{"app": "Pulled Created Started"},
		},
	},
	{
		name: "Never, one ends well and one badly",
		spec: `{restartPolicy: Never, containers: [{name: good, command: [sh, -c, "exit 0"]}, {name: bad,` +
			` command: [sh, -c, "sleep 0.5; exit 1"]}]}`,
		steps:    func(l *podLife) { l.phase(corev1.PodFailed) },
		expected: expected{states: map[string]string{"good": "ended 0 Completed", "bad": "ended 1 Error"}},
	},
	{
		name:     "OnFailure, exit 0",
		spec:     `{restartPolicy: OnFailure, containers: [{name: app, command: [sh, -c, "exit 0"]}]}`,
		steps:    func(l *podLife) { l.phase(corev1.PodSucceeded) },
		expected: expected{states: map[string]string{"app": "ended 0 Completed"}},
	},
	{
		name: "OnFailure, exit 1 and then 0",
		spec: `{restartPolicy: OnFailure, containers: [{name: app, command: [sh, -c, "test -e /d/x && exit 0; ` +
			`touch /d/x; exit 1"], volumeMounts: [{name: d, mountPath: /d}]}], volumes: [{name: d, emptyDir: {}}]}`,
		steps:    func(l *podLife) { l.phase(corev1.PodSucceeded) },
		expected: expected{states: map[string]string{"app": "ended 0 Completed x1"}},
	},
	{
		name: "Always, exit 0: back-off",
		spec: `{containers: [{name: app, command: [sh, -c, "exit 0"]}]}`,
		steps: func(l *podLife) {
			p := l.state("app", "waiting CrashLoopBackOff x1")
			s := status(p, "app")
			if want := "back-off 10s restarting failed container=app pod=p_" + l.ns + "(" + string(p.UID) +
				")"; s.State.Waiting.Message != want {
				l.Errorf("message %q, want %q", s.State.Waiting.Message, want)
			}
			if s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 0 {
				l.Errorf("last state: got %+v, want Terminated set and Terminated.ExitCode 0", s.LastTerminationState)
			}
			l.until("second restart", func(p *corev1.Pod) bool { return status(p, "app").RestartCount == 2 })
			l.event("app", "BackOff", "Back-off restarting failed container app in pod p_"+l.ns)
		},
		expected: expected{events: map[string]string{"app": "Pulled Created Started BackOff"}},
	},
	{
		name: "command that is not there",
		spec: `{restartPolicy: Never, containers: [{name: app, command: [/no/such/program]}]}`,
		steps: func(l *podLife) {
			if l.registry == "registry.test" {
				l.Skip("the fake runtime lets any command run")
			}
			l.phase(corev1.PodFailed)
			l.event("app", "Failed", "no such file or directory")
		},
		expected: expected{states: map[string]string{"app": "ended 128 StartError"},
			events: map[string]string{"app": "Pulled Created Failed"}},
	},
	{
		name: "last words",
		spec: `{restartPolicy: Never, containers: [
			{name: file, command: [sh, -c, "echo -n goodbye > /dev/termination-log; exit 1"]},
			{name: log, terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c,
			"echo out of luck; exit 1"]}]}`,
		steps: func(l *podLife) {
			p := l.phase(corev1.PodFailed)
			for name, want := range map[string]string{"file": "goodbye", "log": "out of luck\n"} {
				if got := status(p, name).State.Terminated.Message; got != want {
					l.Errorf("%s: message %q, want %q", name, got, want)
				}
			}
		},
	},
	{
		name: "active deadline",
		spec: `{activeDeadlineSeconds: 20, terminationGracePeriodSeconds: 1, containers: [{name: app, command: ` +
			runs + `}]}`,
		steps: func(l *podLife) {
			p := l.phase(corev1.PodFailed)
			if p.Status.Reason != "DeadlineExceeded" ||
				p.Status.Message != "Pod was active on the node longer than the specified deadline" {
				l.Errorf(`%s: got %s, want Reason DeadlineExceeded and Message "Pod was active on the node longer `+
					`than the specified d…"`, p.Status.Reason, p.Status.Message)
			}
			l.event("", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
			l.state("app", "ended 0 Completed")
		},
		expected: expected{events: map[string]string{"app": "Pulled Created Started Killing"}},
	},
	{
		name: "restart rule of one container",
		spec: `{restartPolicy: Never, containers: [{name: app, restartPolicy: Never,
			restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}],
			command: [sh, -c, "test -e /d/x && exit 1; touch /d/x; exit 42"], volumeMounts: [{name: d,
			mountPath: /d}]}], volumes: [{name: d, emptyDir: {}}]}`,
		steps:    func(l *podLife) { l.phase(corev1.PodFailed) },
		expected: expected{states: map[string]string{"app": "ended 1 Error x1"}},
	},
	{
		name: "one container always, its Pod never",
		spec: `{restartPolicy: Never, containers: [{name: app, restartPolicy: Always, command: [sh, -c,
			"test -e /d/x || { touch /d/x; exit 1; }; trap 'exit 0' TERM; touch /tmp/up; while true; do sleep 0.1;
			done"],
			volumeMounts: [{name: d, mountPath: /d}]}], volumes: [{name: d, emptyDir: {}}]}`,
		steps:    func(l *podLife) { l.restarted("app", 1); l.ready() },
		expected: expected{phases: "Pending Running", states: map[string]string{"app": "running x1"}},
	},
}
