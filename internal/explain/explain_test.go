package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/wrappers"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) metav1.Time { return metav1.NewTime(t0.Add(d)) }

// base is a Pod with one container, bound to a Ready node.
func base() In {
	return In{
		Now: t0, Ref: journal.Ref{Namespace: "shop", Name: "web"},
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", CreationTimestamp: at(-time.Minute)},
			Spec: corev1.PodSpec{NodeName: "n1", RestartPolicy: corev1.RestartPolicyAlways,
				Containers: []corev1.Container{{Name: "app", Image: "registry.test/web:1.4.3"}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending},
		},
		Node: node(corev1.ConditionTrue),
	}
}

func node(ready corev1.ConditionStatus) *corev1.Node {
	n := wrappers.MakeNode().Name("n1").Obj()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready,
		Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status.",
		LastTransitionTime: at(-2 * time.Minute)}}
	return n
}

func (in *In) fact(ago time.Duration, by string, f journal.Fact) {
	in.Entries = append(in.Entries, journal.Entry{At: t0.Add(-ago), By: by, Ref: in.Ref, Fact: f})
}

func (in *In) state(s corev1.ContainerState) *corev1.ContainerStatus {
	in.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: s}}
	return &in.Pod.Status.ContainerStatuses[0]
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended0(code int32, reason string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: at(-20 * time.Second),
		FinishedAt: at(-10 * time.Second)}
}

func TestWhy(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(in *In)
		state string
		want  []string // all in the printed answer
		not   []string
	}{
		{"no node fits: every node with its numbers, nearest first", func(in *In) {
			in.Pod.Spec.NodeName = ""
			in.fact(50*time.Second, "scheduler", journal.Ruled{Attempt: 1, Nodes: 3,
				Message: "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.",
				Refusals: []journal.NodeRefusal{
					{Node: "cordoned", Plugin: "NodeUnschedulable", Messages: []string{"node(s) were unschedulable"},
						Fix: "kubectl uncordon cordoned"},
					{Node: "far", Plugin: "NodeResourcesFit", Messages: []string{"Insufficient cpu"},
						Shortages: []journal.Shortage{{Resource: "cpu", Requested: 2000, Used: 3900, Available: 4000}}},
					{Node: "near", Plugin: "NodeResourcesFit", Messages: []string{"Insufficient cpu"},
						Shortages: []journal.Shortage{{Resource: "cpu", Requested: 2000, Used: 2500, Available: 4000}}},
				}})
			in.fact(50*time.Second, "scheduler", journal.Queued{Queue: "unschedulable",
				Cause: "ScheduleAttemptFailure"})
		}, "Pending", []string{"0/3 nodes are available",
			"near is 500m short of cpu (1500m free of 4000m, 2000m wanted)",
			"lower the request of cpu to 1500m, or free 500m on near", "kubectl uncordon cordoned",
			"unschedulable queue"}, nil},
		{"a call to the runtime hangs", func(in *In) {
			in.fact(41*time.Second, "kubelet", journal.Planned{Actions: []string{"create sandbox"}})
			in.fact(30*time.Second, "kubelet", journal.Stuck{Path: "SyncPod", Step: "make the sandbox",
				Since: t0.Add(-40 * time.Second)})
		}, "Stuck", []string{"node n1 is stuck with this Pod in SyncPod: make the sandbox has not come back since " +
			"2026-01-02T03:03:25Z, 40s ago", "since 40s ago", "runtimeRequestTimeout"}, []string{"force"}},
		{"a deletion whose stop hangs", func(in *In) {
			in.Pod.DeletionTimestamp = &metav1.Time{Time: t0.Add(-time.Minute)}
			in.fact(30*time.Second, "kubelet", journal.Stuck{Path: "SyncTerminatingPod", Step: "stop the sandbox",
				Since: t0.Add(-40 * time.Second)})
		}, "Terminating", []string{"SyncTerminatingPod: stop the sandbox has not come back", "--force"}, nil},
		{"what hung came back", func(in *In) {
			in.fact(30*time.Second, "kubelet", journal.Stuck{Path: "SyncPod", Step: "make the sandbox",
				Since: t0.Add(-40 * time.Second)})
			in.fact(20*time.Second, "kubelet", journal.Unstuck{Path: "SyncPod", Step: "make the sandbox"})
		}, "ContainerCreating", nil, []string{"has not come back"}},
		{"gated", func(in *In) {
			in.Pod.Spec.NodeName, in.Pod.Spec.SchedulingGates = "",
				[]corev1.PodSchedulingGate{{Name: "example.com/quota"}}
		}, "SchedulingGated", []string{"example.com/quota"}, nil},
		{"another scheduler's", func(in *In) { in.Pod.Spec.NodeName, in.Pod.Spec.SchedulerName = "", "mine" },
			"Pending", []string{`scheduler "mine"`}, nil},
		{"being pulled", func(in *In) {
			in.fact(7*time.Second, "kubelet", journal.Pulling{Image: "registry.test/web:1.4.3", Container: "app"})
		}, "pulling", []string{"registry.test/web:1.4.3", "for 7s now"}, nil},
		{"being unpacked", func(in *In) {
			in.fact(7*time.Second, "kubelet", journal.Pulling{Image: "registry.test/web:1.4.3", Container: "app"})
			in.fact(2*time.Second, "kubelet", journal.PullProgress{Image: "registry.test/web:1.4.3", Container: "app",
				Bytes: 9e6, Total: 9e6})
		}, "pulling", []string{"registry.test/web:1.4.3 of container app is being unpacked: all 9.0 MB are fetched, " +
			"for 7s now"}, []string{"being pulled"}},
		{"being pulled, by bytes", func(in *In) {
			in.fact(12*time.Second, "kubelet", journal.Pulling{Image: "registry.test/web:1.4.3", Container: "app"})
			in.fact(2*time.Second, "kubelet", journal.PullProgress{Image: "registry.test/web:1.4.3", Container: "app",
				Bytes: 2e6, Total: 10e6})
		}, "pulling", []string{"2.0 MB of 10.0 MB, for 12s now", "about 38s more"}, nil},
		{"image not there", func(in *In) {
			in.state(waiting("ImagePullBackOff", "Back-off pulling image"))
			in.fact(9*time.Second, "kubelet", journal.PullFailed{Image: "registry.test/web:1.4.3",
				Reason: "ErrImagePull", Message: "registry.test/web:1.4.3: not found",
				RetryAt: t0.Add(11 * time.Second)})
		}, "ImagePullBackOff", []string{"web:1.4.3", "not found", "next try in 11s",
			"correct the image's name or tag, or push it"}, []string{"imagePullSecret"}},
		{"not allowed to pull", func(in *In) { in.state(waiting("ErrImagePull", "401 Unauthorized")) },
			"ErrImagePull", []string{"imagePullSecret"}, []string{"correct the tag"}},
		{"ConfigMap missing in a volume", func(in *In) {
			in.fact(5*time.Second, "kubelet", journal.VolumeWaiting{Volume: "settings", Type: "configMap",
				Message: `MountVolume.SetUp failed for volume "settings" : configmap "settings" not found`})
		}, "ContainerCreating", []string{`configmap "settings" not found`, "create the ConfigMap"}, nil},
		{"volume came after all", func(in *In) {
			in.fact(5*time.Second, "kubelet", journal.VolumeWaiting{Volume: "settings", Type: "configMap",
				Message: "x"})
			in.fact(4*time.Second, "kubelet", journal.VolumeReady{Volume: "settings"})
		}, "ContainerCreating", nil, []string{"is not ready: x"}},
		{"sandbox fails", func(in *In) {
			in.fact(2*time.Second, "kubelet", journal.Called{Service: "CRI", Method: "RunPodSandbox",
				Error: "no address left in 10.72.0.0/30"})
		}, "ContainerCreating", []string{"no address left in 10.72.0.0/30"}, nil},
		// row: RST-10
		{"image's user is a name", func(in *In) {
			in.state(waiting("CreateContainerConfigError",
				"container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root"))
		}, "CreateContainerConfigError", []string{"runAsUser"}, nil},
		// row: RST-10
		{"crashing", func(in *In) {
			s := in.state(waiting("CrashLoopBackOff", "back-off"))
			s.RestartCount, s.LastTerminationState.Terminated = 4, ended0(3, "Error")
			in.fact(10*time.Second, "kubelet", journal.BackingOff{Container: "app", What: "CrashLoopBackOff",
				Until: t0.Add(30 * time.Second)})
		}, "CrashLoopBackOff", []string{"exit code 3", "4 restarts", "it last ran for 10s", "started again in 30s",
			"--previous"}, []string{"memory"}},
		// row: RST-10
		{"killed for memory", func(in *In) {
			in.Pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse("64Mi")}
			s := in.state(waiting("CrashLoopBackOff", "back-off"))
			s.LastTerminationState.Terminated = ended0(137, "OOMKilled")
		}, "CrashLoopBackOff", []string{"limit 64Mi", "raise the container's memory limit"}, nil},
		// row: RST-10
		{"killed by its liveness probe, not for memory", func(in *In) {
			s := in.state(waiting("CrashLoopBackOff", "back-off"))
			s.LastTerminationState.Terminated = ended0(137, "Error")
			in.fact(15*time.Second, "kubelet", journal.Probed{Container: "app", Probe: "liveness", Result: "failure",
				Message: "HTTP probe failed with statuscode: 500"})
			in.fact(14*time.Second, "kubelet", journal.Killing{Container: "app", Cause: "liveness probe failed",
				Grace: 30})
		}, "CrashLoopBackOff", []string{"liveness probe failed", "statuscode: 500", "stopped by the kubelet"},
			[]string{"raise the container's memory"}},
		// row: RST-10
		{"killed by its startup probe, not by the liveness probe beside it", func(in *In) {
			s := in.state(waiting("CrashLoopBackOff", "back-off"))
			s.LastTerminationState.Terminated = ended0(143, "Error")
			asks := func(path string) *corev1.Probe {
				return &corev1.Probe{FailureThreshold: 3, PeriodSeconds: 2, ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(80)}}}
			}
			app := &in.Pod.Spec.Containers[0]
			app.LivenessProbe, app.StartupProbe = asks("/alive"), asks("/started")
			in.fact(15*time.Second, "kubelet", journal.Probed{Container: "app", Probe: "startup", Result: "failure",
				Message: "HTTP probe failed with statuscode: 503"})
			in.fact(14*time.Second, "kubelet", journal.Killing{Container: "app", Cause: "startup probe failed",
				Grace: 30})
		}, "CrashLoopBackOff", []string{"startup probe failed", "asks path /started on port 80", "statuscode: 503"},
			[]string{"liveness"}},
		{"init container runs", func(in *In) {
			in.Pod.Spec.InitContainers = []corev1.Container{{Name: "first"}, {Name: "second"}}
			in.Pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
				{Name: "first", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
				{Name: "second",
					State: corev1.ContainerState{
						Running: &corev1.ContainerStateRunning{StartedAt: at(-8 * time.Second)}}}}
		}, "Init:1/2", []string{"Init container second (2 of 2)", "logs web -c second"}, nil},
		{"readiness probe fails", func(in *In) {
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse,
				LastTransitionTime: at(-time.Minute)}}
			in.fact(time.Second, "kubelet", journal.Probed{Container: "app", Probe: "readiness", Result: "failure",
				Count: 12, Threshold: 3, Message: "Get \"http://10.0.0.1:8080/\": connection refused"})
		}, "not Ready", []string{"readiness probe of container app fails", "connection refused",
			"12 failures in a row"}, nil},
		{"probe asked late", func(in *In) {
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse,
				LastTransitionTime: at(-time.Minute)}}
			in.fact(time.Second, "kubelet", journal.Probed{Container: "app", Probe: "readiness", Result: "failure",
				Count: 1, Threshold: 3, Message: "timeout", Late: journal.Took(2500 * time.Millisecond)})
		}, "not Ready", []string{"the readiness probe of container app was asked 2.5s late, 1s ago: the node is busy"},
			nil},
		{"readiness gate", func(in *In) {
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}).Ready = true
			in.Pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
		}, "not Ready", []string{"example.com/lb"}, nil},
		{"stopping", func(in *In) {
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			grace, end := int64(30), at(12*time.Second)
			in.Pod.DeletionTimestamp, in.Pod.DeletionGracePeriodSeconds = &end, &grace
			in.fact(18*time.Second, "kubelet", journal.StopStep{Container: "app", Step: "TERM"})
		}, "Terminating", []string{"still run: app", "30s of grace", "was sent TERM 18s ago", "killed",
			"since 18s ago"}, nil},
		{"stopping: the preStop hook runs", func(in *In) {
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			grace, end := int64(300), at(295*time.Second)
			in.Pod.DeletionTimestamp, in.Pod.DeletionGracePeriodSeconds = &end, &grace
			in.app().Lifecycle = &corev1.Lifecycle{
				PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sleep", "500"}}}}
			in.fact(5*time.Second, "kubelet", journal.Killing{Container: "app", Cause: "deleted", Grace: 300})
		}, "Terminating",
			[]string{"container app is in its preStop hook (exec sleep 500) for 5s now and gets TERM when it is over",
				"300s of grace", "killed", "make the preStop hook of app end sooner", "--grace-period=5 --wait=false"},
			[]string{"was sent TERM"}},
		{"stopping: after the hook the process was asked, by its own signal", func(in *In) {
			usr1 := corev1.SIGUSR1
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}).StopSignal = &usr1
			grace, end := int64(300), at(200*time.Second)
			in.Pod.DeletionTimestamp, in.Pod.DeletionGracePeriodSeconds = &end, &grace
			in.app().Lifecycle = &corev1.Lifecycle{
				PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 90}}}
			in.fact(100*time.Second, "kubelet", journal.Killing{Container: "app", Cause: "deleted", Grace: 300})
			in.fact(10*time.Second, "kubelet", journal.StopStep{Container: "app", Step: "preStop"})
			in.fact(10*time.Second, "kubelet", journal.StopStep{Container: "app", Step: "TERM"})
		}, "Terminating", []string{"container app was sent USR1 10s ago and has not ended", "end on USR1"},
			[]string{"is in its preStop hook"}},
		{"stopping without a journal: the hook is named as what comes first", func(in *In) {
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			end := at(20 * time.Second)
			in.Pod.DeletionTimestamp = &end
			in.app().Lifecycle = &corev1.Lifecycle{
				PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 9}}}
		}, "Terminating", []string{"container app has a preStop hook (sleep of 9 s), which runs before it gets TERM",
			"30s of grace"}, nil},
		{"a volume's release hangs", func(in *In) {
			in.state(corev1.ContainerState{Terminated: ended0(0, "Completed")})
			end := at(-time.Minute)
			in.Pod.DeletionTimestamp = &end
			in.fact(50*time.Second,
				"kubelet", journal.Waiting{
					For:   "the kernel: unmount volume share at /pods/u/volumes/share takes longer than 2s",
					Since: t0.Add(-52 * time.Second), Next: "goes on when the kernel answers",
					Fix: "look at what is mounted there (findmnt -R /pods/u/volumes/share)"})
		}, "Terminating", []string{"Its containers have ended",
			"cannot release what the Pod had on node n1: it waits for the kernel: unmount volume share at " +
				"/pods/u/volumes/share", "for 52s now", "findmnt -R"}, nil},
		{"a volume's release is stuck", func(in *In) {
			end := at(-time.Minute)
			in.Pod.DeletionTimestamp = &end
			in.fact(40*time.Second,
				"kubelet", journal.Waiting{
					For:   "the kernel: unmount volume share at /pods/u/volumes/share takes longer than 2s",
					Since: t0.Add(-42 * time.Second),
					Fix:   "look at what is mounted there (findmnt -R /pods/u/volumes/share)"})
			in.fact(30*time.Second, "kubelet", journal.Stuck{Path: "SyncTerminatedPod", Step: "release",
				Since: t0.Add(-42 * time.Second)})
		}, "Terminating", []string{"SyncTerminatedPod: release has not come back",
			"It waits for the kernel: unmount volume share", "findmnt -R", "--force"}, nil},
		{"the postStart hook runs", func(in *In) {
			in.state(waiting("ContainerCreating", ""))
			in.app().Lifecycle = &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/warm",
					Port: intstr.FromInt32(80)}}}
			in.fact(9*time.Second, "kubelet", journal.ContainerStarted{Container: "app", ID: "c1"})
		}, "starting",
			[]string{"Container app was started, and its postStart hook (GET /warm on port 80) still runs, for 9s now",
				"no time limit of its own"}, []string{"is making the Pod"}},
		{"the postStart hook has failed", func(in *In) {
			in.state(waiting("ContainerCreating", ""))
			in.app().Lifecycle = &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
			in.fact(9*time.Second, "kubelet", journal.ContainerStarted{Container: "app", ID: "c1"})
			in.fact(time.Second, "kubelet", journal.ContainerExited{Container: "app", ID: "c1"})
		}, "ContainerCreating", nil, []string{"still runs"}},
		{"the probe has not been asked yet", func(in *In) {
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-8 * time.Second)}})
			in.app().ReadinessProbe = &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{
					TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
				InitialDelaySeconds: 120, PeriodSeconds: 10}
		}, "not Ready",
			[]string{"the readiness probe of container app has not been asked yet, because its initialDelaySeconds " +
				"is 120", "asked first in 1m52s, then every 10s", `"initialDelaySeconds":null`}, nil},
		{"the probe has to succeed more than once", func(in *In) {
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-8 * time.Second)}})
			in.app().ReadinessProbe = &corev1.Probe{PeriodSeconds: 30, SuccessThreshold: 3}
		}, "not Ready", []string{"has to succeed 3 times in a row (successThreshold)", "every 30s"}, nil},
		{"the startup probe fails, readiness is not asked", func(in *In) {
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-8 * time.Second)}})
			in.app().ReadinessProbe = &corev1.Probe{PeriodSeconds: 30}
			in.app().StartupProbe = &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
				PeriodSeconds: 2, FailureThreshold: 60}
			in.fact(time.Second, "kubelet", journal.Probed{Container: "app", Probe: "startup", Result: "failure",
				Count: 4, Threshold: 60, Message: "connection refused"})
		}, "not Ready", []string{"the startup probe of container app asks port 80, where nothing listens",
			"4 failures in a row",
			"asked every 2s; 60 failures in a row are allowed, then the kubelet ends the container"}, nil},
		{"a sidecar has not started", func(in *In) {
			always := corev1.ContainerRestartPolicyAlways
			in.Pod.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: &always,
				StartupProbe: &corev1.Probe{
					ProbeHandler: corev1.ProbeHandler{
						TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(15020)}}, PeriodSeconds: 1,
					FailureThreshold: 300}}, {Name: "migrate"}}
			in.Pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
				{Name: "proxy",
					State: corev1.ContainerState{
						Running: &corev1.ContainerStateRunning{StartedAt: at(-8 * time.Second)}}}}
			in.fact(time.Second, "kubelet", journal.Probed{Container: "proxy", Probe: "startup", Result: "failure",
				Count: 7, Threshold: 300, Message: "connection refused"})
		}, "Init:0/2",
			[]string{"Sidecar container proxy (1 of 2) runs but has not started: the startup probe of container " +
				"proxy asks port 15020, where nothing listens",
				"Everything after it waits until it has started: migrate and app", "300 failures"}, nil},
		{"an init container fails again and again", func(in *In) {
			in.Pod.Spec.InitContainers = []corev1.Container{{Name: "migrate"}}
			in.Pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "migrate", RestartCount: 3,
				State:                waiting("CrashLoopBackOff", ""),
				LastTerminationState: corev1.ContainerState{Terminated: ended0(4, "Error")}}}
		}, "CrashLoopBackOff", []string{"Init container migrate ends again and again: last with exit code 4",
			"Everything after it waits until it has succeeded: app"}, nil},
		{"a path in a volume leads out of it", func(in *In) {
			in.state(waiting("CreateContainerConfigError",
				`failed to prepare subPath for volumeMount "d" of container "app"`))
			in.app().VolumeMounts = []corev1.VolumeMount{{Name: "d", MountPath: "/data", SubPath: "out"}}
			in.fact(time.Second,
				"kubelet", journal.Waiting{
					For: `start app: failed to prepare subPath for volumeMount "d" of container "app"`,
					Fix: "the subPath must stay inside the volume: open out: invalid cross-device link"})
		}, "CreateContainerConfigError", []string{"subPath out (at /data) of volume d cannot be mounted",
			"a symbolic link that leads out of the volume", "mount the whole volume there",
			"invalid cross-device link"}, []string{"mend what the text names"}},
		{"a directory of the node is missing", func(in *In) {
			dir := corev1.HostPathDirectory
			in.Pod.Spec.Volumes = []corev1.Volume{
				{Name: "d", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/no",
					Type: &dir}}}}
			in.fact(time.Second, "kubelet", journal.VolumeWaiting{Volume: "d", Type: "hostPath",
				Message: "hostPath type check failed: /no is not a directory",
				Fix:     "create the path on the node, or correct path and type"})
		}, "ContainerCreating", []string{"/no is not a directory", "type DirectoryOrCreate instead of Directory",
			`"type":"DirectoryOrCreate"`, "create the path on the node"}, nil},
		{"finalizer", func(in *In) {
			in.state(corev1.ContainerState{Terminated: ended0(0, "Completed")})
			end := at(-time.Minute)
			in.Pod.DeletionTimestamp, in.Pod.Finalizers = &end, []string{"backup.example.com/snapshot"}
		}, "Terminating", []string{"backup.example.com/snapshot"}, []string{"--force"}},
		{"a finalizer that a controller of Kubernetes takes away", func(in *In) {
			in.state(corev1.ContainerState{Terminated: ended0(0, "Completed")})
			end := at(-time.Second)
			in.Pod.DeletionTimestamp, in.Pod.Finalizers = &end, []string{"batch.kubernetes.io/job-tracking"}
		}, "Terminating", []string{"batch.kubernetes.io/job-tracking", "within seconds"}, []string{"kubectl", "null"}},
		{"a finalizer of somebody beside one of Kubernetes", func(in *In) {
			in.state(corev1.ContainerState{Terminated: ended0(0, "Completed")})
			end := at(-time.Minute)
			in.Pod.DeletionTimestamp, in.Pod.Finalizers = &end,
				[]string{"batch.kubernetes.io/job-tracking", "backup.example.com/snapshot"}
		}, "Terminating", []string{"controller that owns backup.example.com/snapshot",
			`{"finalizers":["batch.kubernetes.io/job-tracking"]}`}, []string{"null"}},
		{"its node is gone, and only a finalizer is left", func(in *In) {
			end, yes := at(-time.Minute), true
			in.Node, in.Pod.DeletionTimestamp, in.Pod.Finalizers, in.Pod.Status.Phase = nil, &end,
				[]string{"disk.example.com/keep"}, corev1.PodFailed
			in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget,
				Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}}
			in.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: &yes}}
		}, "Terminating", []string{"node n1 no longer exists", "DeletionByPodGC", "disk.example.com/keep",
			"StatefulSet db cannot make a new web"}, []string{"kubelet to confirm", "--force"}},
		{"terminating on a silent node", func(in *In) {
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			in.Node = node(corev1.ConditionUnknown)
			end := at(-time.Minute)
			in.Pod.DeletionTimestamp = &end
		}, "Terminating", []string{"node n1", "out-of-service"}, nil},
		{"on a lost node", func(in *In) { in.Node = nil }, "lost", []string{"n1, which does not exist"}, nil},
		{"on a silent node", func(in *In) { in.Node = node(corev1.ConditionUnknown) }, "on a node that is not ready",
			[]string{"Kubelet stopped posting node status"}, nil},
		{"gone", func(in *In) {
			in.Pod = nil
			in.fact(time.Minute, "apiserver", journal.Deleting{User: "alice", Grace: 30})
			in.fact(50*time.Second, "kubelet", journal.ContainerExited{Container: "app", ExitCode: 143,
				Reason: "Error"})
			in.fact(40*time.Second, "apiserver", journal.Removed{Revision: 9})
		}, "gone", []string{"deleted by alice", "code 143", "gantry trace"}, nil},
		{"failed for good", func(in *In) {
			in.Pod.Spec.RestartPolicy, in.Pod.Status.Phase = corev1.RestartPolicyNever, corev1.PodFailed
			in.state(corev1.ContainerState{Terminated: ended0(127, "Error")})
		}, "Failed", []string{"its command was not found", "restart policy Never"}, nil},
		{"ready: the scoreboard", func(in *In) {
			in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}).Ready = true
			in.Pod.Status.Phase = corev1.PodRunning
			in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
				LastTransitionTime: at(-time.Minute)}}
			in.fact(time.Minute,
				"scheduler", journal.Ruled{Winner: "n1", Scores: []journal.NodeScore{{Node: "n2", Total: 80},
					{Node: "n1", Total: 91, Parts: []journal.PluginScore{{Plugin: "NodeResourcesFit", Weighted: 91}}}}})
		}, "Ready", []string{"n1 (chosen): score 91: NodeResourcesFit=91", "n2: score 80"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := base()
			c.set(&in)
			a := Why(in)
			var b strings.Builder
			if err := a.WriteText(&b, in.Now); err != nil {
				t.Fatal(err)
			}
			namedCause(t, a)
			if a.State != c.state {
				t.Errorf("state %q, want %q\n%s", a.State, c.state, b.String())
			}
			for _, want := range c.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("lacks %q:\n%s", want, b.String())
				}
			}
			for _, not := range c.not {
				if strings.Contains(b.String(), not) {
					t.Errorf("says %q:\n%s", not, b.String())
				}
			}
		})
	}
}

// namedCause demands that what an answer names as cause is a finding too, with an object, a field
// and what to do.
func namedCause(t *testing.T, a Answer) {
	t.Helper()
	if slices.Contains(healthy, a.State) || slices.Contains(underWay, a.Code) {
		return
	}
	if !slices.ContainsFunc(a.Findings, func(f finding.Finding) bool {
		return f.Object.Name != "" && f.Field != "" && f.Message != "" && (len(f.Remedies) > 0 || len(a.Fixes) == 0)
	}) {
		t.Errorf("%s (%s) has no finding for its cause %q: %+v", a.State, a.Code, a.Cause, a.Findings)
	}
}

// Whatever is missing around a Pod, there is an answer and no crash.
func TestWhyNeverFails(t *testing.T) {
	in := base()
	in.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "stranger", State: waiting("CrashLoopBackOff", "")},
		{Name: "app", State: waiting("CrashLoopBackOff", "")}}
	for _, x := range []In{{}, {Now: t0, Pod: &corev1.Pod{}}, in} {
		if a := Why(x); a.State == "" || a.Cause == "" {
			t.Errorf("no answer: %+v", a)
		}
	}
}
