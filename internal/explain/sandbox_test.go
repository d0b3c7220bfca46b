package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/wrappers"
)

// answerText are an answer's cause, facts and remedies.
func answerText(a Answer) string {
	text := a.Cause + "\n" + strings.Join(a.Facts, "\n")
	for _, f := range a.Fixes {
		text += "\n" + f.Description + " " + strings.Join(f.Run, "\n")
		if f.ManifestChange != nil {
			text += f.ManifestChange.Object + " " + f.ManifestChange.Patch
		}
	}
	return text
}

// What hinders a node from starting a Pod is named with the object and field that are to blame.
func TestANodeCannotStartAPod(t *testing.T) {
	class := "sandboxed"
	limit := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")}
	killed := func(in *In) {
		s := in.state(waiting("CrashLoopBackOff", "back-off"))
		s.RestartCount = 3
		s.LastTerminationState.Terminated = ended0(137, "OOMKilled")
	}
	exits := func(in *In, code int32, said string) {
		s := in.state(waiting("CrashLoopBackOff", "back-off"))
		s.RestartCount = 3
		s.LastTerminationState.Terminated = ended0(code, "Error")
		in.LastLogs = map[string]string{"app": said}
	}
	beside := func(in *In) {
		in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, corev1.Container{Name: "web", Command: []string{"httpd",
			"-p", "8080"}})
		in.Pod.Status.ContainerStatuses = append(in.Pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "web",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	sandbox := func(in *In, words string) {
		in.fact(time.Second, "kubelet", journal.Called{Service: "CRI", Method: "RunPodSandbox", Error: words})
	}
	for _, c := range []struct {
		name      string
		set       func(*In)
		want, not []string
	}{
		{"no such handler", func(in *In) {
			in.Pod.Spec.RuntimeClassName = &class
			in.Node.Status.RuntimeHandlers = []corev1.NodeRuntimeHandler{{}, {Name: "runc"}}
			sandbox(in, `rpc error: code = Unknown desc = unable to get OCI runtime for sandbox "8c": no runtime for `+
				`"kata-qemu" is configured`)
		}, []string{"RuntimeClass sandboxed (spec.runtimeClassName) asks for handler kata-qemu", "It has runc",
			`"runtimeClassName":null`}, []string{"cni"}},
		{"no address", func(in *In) {
			sandbox(in, `rpc error: code = Unknown desc = failed to setup network for sandbox "6d": plugin `+
				`type="gantry-cni" failed (add): all 13 addresses of the Pod range 10.0.0.0/28 are in use; a Pod `+
				`that ends `+
				`frees one`)
		}, []string{"all 13 addresses of node n1's Pod range 10.0.0.0/28 are in use", "greater range"},
			[]string{"--cni-conf-dir"}},
		{"the network's plugin", func(in *In) {
			sandbox(in, `rpc error: code = Unknown desc = failed to setup network for sandbox "6d": plugin `+
				`type="flannel" `+
				`failed (add): open /run/flannel/subnet.env: no such file or directory`)
		}, []string{"subnet.env", "--cni-conf-dir"}, nil},
		{"what a runtime says", func(in *In) {
			sandbox(in, "rpc error: code = Unknown desc = no space left on device")
		},
			[]string{"no space left on device"}, []string{"--cni-conf-dir"}},
		{"the Pod's memory limit", func(in *In) {
			in.Pod.Spec.Resources = &corev1.ResourceRequirements{Limits: limit}
			killed(in)
		}, []string{"spec.resources.limits.memory of the Pod allows all its containers together 32Mi",
			`{"resources":{"limits":{"memory":"128Mi"}}}`}, []string{"or the node"}},
		{"a volume in memory", func(in *In) {
			in.app().Resources.Limits = limit
			in.app().VolumeMounts = []corev1.VolumeMount{{Name: "c", MountPath: "/cache"}}
			in.Pod.Spec.Volumes = []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}}
			killed(in)
		}, []string{"what it writes into volume c at /cache (emptyDir of medium Memory) counts too", "on the " +
			"node's disk"},
			nil},
		{"a limit by default", func(in *In) {
			in.app().Resources.Limits = limit
			in.Pod.Annotations = map[string]string{
				"kubernetes.io/limit-ranger": "LimitRanger plugin set: memory limit for container app"}
			in.Objects = &finding.Cluster{Now: in.Now, Namespace: "shop"}
			in.Objects.Add("LimitRange", &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
				Name: "small"},
				Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
					Default: limit}}}})
			killed(in)
		}, []string{"the default of LimitRange small"}, nil},
		{"a limit of its own", func(in *In) { in.app().Resources.Limits = limit; killed(in) }, []string{"limit 32Mi"},
			[]string{"LimitRange", "medium Memory"}},
		{"processes", func(in *In) {
			in.ClusterContext = &ClusterContext{ProcessLimit: 30}
			exits(in, 2, "sh: can't fork: Resource temporarily unavailable")
		}, []string{"a Pod may have 30 of them", "podPidsLimit", "node n1"}, nil},
		{"threads, limit not known", func(in *In) {
			exits(in, 1, "java.lang.OutOfMemoryError: unable to create native thread")
		}, []string{"podPidsLimit"}, []string{"30"}},
		{"a port of a container beside", func(in *In) {
			in.app().Command = []string{"httpd", "-p", "8080"}
			exits(in, 1, "httpd: bind: Address already in use")
			beside(in)
		}, []string{"It cannot listen on port 8080: container web of the same Pod does"}, nil},
		{"a port of nobody that is known", func(in *In) {
			exits(in, 1, "listen tcp :9999: bind: address already in use")
			beside(in)
		}, nil, []string{"container web", "hostNetwork"}},
		{"a port of the node", func(in *In) {
			in.Pod.Spec.HostNetwork = true
			exits(in, 1, "listen tcp :10250: bind: address already in use")
		}, []string{"port 10250", "hostNetwork"}, nil},
		{"a rule starts it again", func(in *In) {
			in.Pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			in.app().RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action: corev1.ContainerRestartRuleActionRestart,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn,
					Values: []int32{42}}}}
			exits(in, 42, "")
		}, []string{"spec.containers[0].restartPolicyRules[0] does (Restart, exit codes In 42)"}, nil},
		{"a rule for other codes", func(in *In) {
			in.Pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
			in.app().RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action: corev1.ContainerRestartRuleActionRestart,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn,
					Values: []int32{42}}}}
			exits(in, 1, "")
		}, nil, []string{"restartPolicyRules"}},
		{"nothing to run", func(in *In) {
			exits(in, 0, "")
			x := in.Pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
			x.FinishedAt = x.StartedAt
		}, []string{"neither command nor args", `"stdin":true`}, nil},
		{"work that is done", func(in *In) {
			in.app().Command = []string{"backup", "--once"}
			exits(in, 0, "")
		}, nil, []string{"stdin"}},
		{"no seccomp profile", func(in *In) {
			file := "audit.json"
			in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{
				Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &file}}
			in.state(waiting("CreateContainerError", `failed to create containerd container: cannot load seccomp `+
				`profile `+
				`"/k/seccomp/audit.json": open /k/seccomp/audit.json: no such file or directory`))
		}, []string{"spec.securityContext.seccompProfile.localhostProfile", "node n1 has no file /k/seccomp/audit.json",
			"RuntimeDefault"}, nil},
		{"a working directory that is a file", func(in *In) {
			in.app().WorkingDir = "/etc/passwd"
			in.state(waiting("RunContainerError", "mkdir /etc/passwd: not a directory"))
		}, []string{"workingDir, /etc/passwd", `"workingDir":null`}, nil},
		{"a static Pod is changed in its file", func(in *In) {
			in.Pod.Name = "web-n1"
			in.Pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			in.app().WorkingDir = "/etc/passwd"
			in.state(waiting("RunContainerError", "mkdir /etc/passwd: not a directory"))
		}, []string{"static pod/web ", "staticPodPath"}, []string{"kubectl"}},
	} {
		in := base()
		c.set(&in)
		text := answerText(Why(in))
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: got %q, want %q in it", c.name, text, w)
			}
		}
		for _, w := range c.not {
			if strings.Contains(text, w) {
				t.Errorf("%s: got %q, want no %q in it", c.name, text, w)
			}
		}
	}
}

// A Pod that its kubelet refused is explained by the field for which it did, with who stands in the
// way; of a Deployment that one is explained, not the next that only starts, with how many there
// are.
func TestAKubeletRefuses(t *testing.T) {
	failed := func(reason, message string) In {
		in := base()
		in.Pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: message}
		return in
	}
	check := func(name string, in In, want ...string) {
		t.Helper()
		text := answerText(Why(in))
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: got %q, want %q in it", name, text, w)
			}
		}
	}
	in := failed("NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports")
	in.app().Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 18999}}
	holder := wrappers.MakePod().Namespace("shop").Name("holder").Node("n1").Obj()
	holder.Spec.Containers = []corev1.Container{{Name: "a", Ports: []corev1.ContainerPort{{ContainerPort: 80,
		HostPort: 18999}}}}
	in.ClusterContext = &ClusterContext{Pods: []*corev1.Pod{holder}}
	check("port", in, "hostPort 18999", "Pod holder in namespace shop", "spec.nodeName n1", `"nodeName":null`)
	in = failed("OutOfcpu", "Node didn't have enough resource: cpu, requested: 64000, used: 5, capacity: 2000")
	in.app().Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64")}
	check("cpu", in, "it requests 64 of cpu, and of the node's 2 5m are taken", "spec.nodeName n1", `"cpu":"1995m"`)
	in.fact(time.Second, "scheduler", journal.Bound{Node: "n1"})
	if text := answerText(Why(in)); strings.Contains(text, "named that node itself") {
		t.Errorf("bound by a scheduler: got %q, want no word of spec.nodeName", text)
	}
	in = failed("SysctlForbidden", `forbidden sysctl: "net.core.somaxconn" not allowlisted`)
	in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{
		{Name: "kernel.shm_rmid_forced", Value: "0"}, {Name: "net.core.somaxconn", Value: "1024"}}}
	check("sysctl", in, "sysctl net.core.somaxconn (spec.securityContext.sysctls[1]", "allowedUnsafeSysctls")
	if text := answerText(Why(in)); strings.Contains(strings.Split(text, "\n")[0], "shm_rmid_forced") {
		t.Errorf("sysctl: got %q, want the allowed one not named", text)
	}
	yes := true
	of := []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: &yes}}
	refused := in.Pod.DeepCopy()
	refused.Name, refused.OwnerReferences, refused.CreationTimestamp = "old", of, at(-20*time.Second)
	next := base().Pod
	next.Name, next.OwnerReferences, next.CreationTimestamp = "next", of, at(-time.Second)
	if got := WorstPod([]*corev1.Pod{next, refused}, t0); got != refused {
		t.Errorf("worst Pod: got %s, want the refused one", got.Name)
	}
	refused.CreationTimestamp = at(-time.Hour)
	if got := WorstPod([]*corev1.Pod{next, refused}, t0); got != next {
		t.Errorf("worst Pod after an hour: got %s, want the newest", got.Name)
	}
}

// A node's own conditions are named with the taints that they bring, and to take such a taint off
// is no remedy.
func TestTaintsOfConditions(t *testing.T) {
	n := node(corev1.ConditionFalse)
	n.Status.Conditions[0].Reason, n.Status.Conditions[0].Message = "KubeletNotReady", "cni plugin not initialized"
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	if got, want := taintReasons(n), "Ready is False (KubeletNotReady: cni plugin not "+
		"initialized)"; !strings.Contains(got,
		want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
	in := base()
	in.ClusterContext = &ClusterContext{Nodes: []*corev1.Node{n}}
	refused := []journal.NodeRefusal{{Node: n.Name, Plugin: "TaintToleration", Fix: "take off the taint"}}
	if got := pluginHints(in, refused); len(got) != 1 || !strings.Contains(got[0].Description, "the taint comes back") {
		t.Errorf("got remedies %+v, want one that mends the node", got)
	}
	n.Spec.Taints[0].Key = "team"
	if got := taintReasons(n); got != "" {
		t.Errorf("a taint that somebody set: got %q, want nothing", got)
	}
	if got := pluginHints(in, refused); len(got) != 1 || !strings.HasPrefix(got[0].Description, "take off the taint") {
		t.Errorf("a taint that somebody set: got remedies %+v, want to take it off", got)
	}
}

// A volume whose claim leads to a directory that its node does not have is told with claim, volume,
// field and node.
func TestTheDirectoryBehindAClaim(t *testing.T) {
	in := base()
	in.Pod.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "fast"}}}}
	in.Objects = &finding.Cluster{Now: in.Now, Namespace: "shop"}
	in.Objects.Add("PersistentVolumeClaim", &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "fast"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "nvme0"}})
	in.Objects.Add("PersistentVolume", &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "nvme0"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			Local: &corev1.LocalVolumeSource{Path: "/mnt/nvme0"}}}})
	in.fact(time.Second, "kubelet", journal.VolumeWaiting{Volume: "d", Type: "persistentVolumeClaim",
		Message: "stat /mnt/nvme0: no such file or directory"})
	text := answerText(Why(in))
	for _, want := range []string{"claim fast", "PersistentVolume nvme0, whose spec.local.path, /mnt/nvme0, does " +
		"not exist on node n1", "mkdir -p /mnt/nvme0"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
	if strings.Contains(text, "create the claim") {
		t.Errorf("got %q, want no word of creating the claim, which is there", text)
	}
	said := oneLine("mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs a:/b " +
		"/k/pods/1/v\nOutput: mount: /k/pods/1/volumes/v: unknown filesystem type 'nfs'.\n       dmesg(1) may have " +
		"more information after failed mount system call.\n")
	if want := "mount failed: unknown filesystem type 'nfs'."; said != want {
		t.Errorf("mount's words: got %q, want %q", said, want)
	}
}

// A sidecar that is ended when the containers that it serves have ended did as it was told; one
// that ends before is told.
func TestASidecarEndsWithItsPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for name, before := range map[string]time.Duration{"with it": 0, "before": time.Second} {
		in := base()
		in.Pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		in.Pod.Spec.InitContainers = []corev1.Container{{Name: "shipper", RestartPolicy: &always}}
		in.Pod.Status.Phase = corev1.PodSucceeded
		in.state(corev1.ContainerState{Terminated: ended0(0, "Completed")})
		x := ended0(143, "Error")
		x.FinishedAt = at(-10*time.Second - before)
		in.Pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "shipper",
			State: corev1.ContainerState{Terminated: x}}}
		if got, want := Why(in).Well(), before == 0; got != want {
			t.Errorf("%s: got well %v, want %v", name, got, want)
		}
	}
}

// A liveness probe that cannot be run is told of a container that is ready: nobody restarts it.
func TestALivenessProbeThatCannotBeRun(t *testing.T) {
	for result, want := range map[string]bool{"unknown": true, "success": false} {
		in := base()
		in.Pod.Status.Phase = corev1.PodRunning
		in.app().LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"curl", "-f", "http://localhost"}}}}
		in.runs().Ready = true
		in.fact(time.Second, "kubelet", journal.Probed{Container: "app", Probe: "liveness", Result: result,
			Message: `OCI runtime exec failed: exec failed: unable to start container process: exec: "curl": ` +
				`executable file ` +
				`not found in $PATH`})
		got := false
		for _, f := range Why(in).Findings {
			got = got || f.Code == "ProbeFails" && strings.Contains(f.Field, "livenessProbe.exec") &&
				strings.Contains(f.Message, `exec: "curl": executable file not found`)
		}
		if got != want {
			t.Errorf("%s: got told %v, want %v", result, got, want)
		}
	}
}

// The user that an image names is held against the files that keep it out, as one that the Pod
// names.
func TestTheUserOfAnImage(t *testing.T) {
	for _, c := range []struct {
		name, said, want string
		uid              int64
		set              func(*In)
	}{
		{"a directory of the image", "sh: can't create /var/log/app.log: Permission denied",
			"It runs as user 1234, whom its image names", 1234, nil},
		{"a claim", "mkdir: can't create directory '/data/x': Permission denied", "no fsGroup gives it to that one",
			1234,
			func(in *In) {
				in.app().VolumeMounts = []corev1.VolumeMount{{Name: "d", MountPath: "/data"}}
				in.Pod.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{
					EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			}},
		{"root", "sh: can't create /var/log/app.log: Permission denied", "", 0, nil},
	} {
		in := base()
		s := in.state(waiting("CrashLoopBackOff", "back-off"))
		s.RestartCount = 3
		s.LastTerminationState.Terminated = ended0(1, "Error")
		s.User = &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: c.uid}}
		in.LastLogs = map[string]string{"app": c.said}
		if c.set != nil {
			c.set(&in)
		}
		text := Why(in).Cause
		if !strings.Contains(text, c.want) || c.want == "" && strings.Contains(text, "user") {
			t.Errorf("%s: got %q, want %q in it", c.name, text, c.want)
		}
	}
}
