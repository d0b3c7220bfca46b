package features_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// Lives of Pods on one node: phases, conditions, restarts, init and ephemeral containers, ends.
// What all of them showed is checked at the end.
func TestPodLifecycles(t *testing.T) {
	t.Parallel()
	w := start(t)
	states := w.record()
	t.Run("lives", func(t *testing.T) {
		for _, x := range []struct {
			name string
			test func(*fixture)
		}{
			{"terminating", terminating},                   // row: PST-11
			{"order of facts", networkBeforeImages},        // row: PST-18
			{"init statuses", initStatuses},                // row: PST-30
			{"sidecar in a Never Pod", sidecarRestarts},    // row: RST-03
			{"one image of an init container", initImage},  // row: ISE-10
			{"sandbox dies", sandboxDies},                  // row: ISE-09, ISE-12
			{"together", together},                         // row: ISE-03
			{"init waits for its dependencies", initWaits}, // row: ISE-04
			{"fields of init containers", initFields},      // row: ISE-06
			{"fields of events", eventFields},              // row: OPS-05
			{"log shipper", sharedEmptyDir},                // row: ISE-26
			{"debugger ends", debuggerEnds},                // row: ISE-30
			{"force", force},                               // row: TRM-03
			{"four causes", fourCauses},                    // row: RST-10
			{"other writers", otherWriters},                // row: PST-32
			{"cgroup first", cgroupFirst},
			{"succeeds and fails", succeedsAndFails},
			{"of another system", otherSystem}, // row: API-41
		} {
			t.Run(x.name, func(t *testing.T) {
				x.test(w.forSubtest(t))
			})
		}
	})
	all := states()
	phases(t, all)     // row: PST-01
	conditions(t, all) // row: PST-13
	reasons(w, all)    // row: PST-15
	revisions(t, all)  // row: API-12
}

func running(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning }

func succeedsAndFails(w *fixture) {
	for name, script := range map[string]string{"succeeds": "exit 0", "fails": "exit 4"} {
		p := scriptPod(name, script)
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		w.create(p)
	}
	w.wait("succeeds", phase(v1.PodSucceeded))
	w.wait("fails", phase(v1.PodFailed))
}

func phases(t *testing.T, all []*v1.Pod) {
	seen := map[v1.PodPhase]bool{}
	for _, p := range all {
		seen[p.Status.Phase] = true
	}
	for _, want := range []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed} {
		if !seen[want] {
			t.Errorf("no Pod was ever %s", want)
		}
		delete(seen, want)
	}
	if len(seen) > 0 {
		t.Errorf("phases that are none: %v", seen)
	}
}

func conditions(t *testing.T, all []*v1.Pod) {
	fields := []string{"lastProbeTime", "lastTransitionTime", "message", "observedGeneration", "reason", "status",
		"type"}
	count := 0
	for _, p := range all {
		for _, c := range p.Status.Conditions {
			count++
			raw, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			for name := range got {
				if !slices.Contains(fields, name) {
					t.Errorf("%s: field %s", raw, name)
				}
			}
			if _, has := got["lastProbeTime"]; !has || c.LastTransitionTime.IsZero() || c.Type == "" ||
				!slices.Contains([]v1.ConditionStatus{"True", "False", "Unknown"}, c.Status) {
				t.Errorf("%s lacks what a condition has", raw)
			}
			if c.Status == v1.ConditionFalse && (c.Type == v1.PodReady || c.Type == v1.ContainersReady ||
				c.Type == v1.PodInitialized) && (c.Reason == "" ||
				strings.HasPrefix(c.Reason, "Containers") && c.Message == "") {
				t.Errorf("%s is False and does not say why", raw)
			}
		}
	}
	if count == 0 {
		t.Error("no conditions")
	}
}

func reasons(w *fixture, all []*v1.Pod) {
	camel, seen := regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`), map[string]bool{}
	for _, p := range all {
		seen[p.Status.Reason] = true
		for _, c := range p.Status.Conditions {
			seen[c.Reason] = true
		}
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
			p.Status.EphemeralContainerStatuses) {
			for _, state := range []v1.ContainerState{s.State, s.LastTerminationState} {
				if state.Waiting != nil {
					seen[state.Waiting.Reason] = true
				}
				if state.Terminated != nil {
					seen[state.Terminated.Reason] = true
				}
			}
		}
	}
	events, err := w.Client.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{})
	expect.NoError(w.t, err)
	for _, e := range events.Items {
		seen[e.Reason] = true
	}
	delete(seen, "")
	for r := range seen {
		if !camel.MatchString(r) {
			w.t.Errorf("reason %q", r)
		}
	}
	if len(seen) < 15 {
		w.t.Errorf("only %d reasons were seen: %v", len(seen), seen)
	}
}

func revisions(t *testing.T, all []*v1.Pod) {
	count, ran := map[string]int{}, false
	for _, p := range all {
		if p.Name == "succeeds" {
			count[p.Name]++
			ran = ran || p.Status.Phase == v1.PodSucceeded
		}
	}
	t.Logf("a Pod that ran to its end had %d revisions", count["succeeds"])
	if n := count["succeeds"]; !ran || n < 3 || n > 100 {
		t.Errorf("%d revisions", n)
	}
}

func terminating(w *fixture) {
	p := scriptPod("ends", "trap '' TERM; while true; do sleep 0.05; done")
	p.Spec.TerminationGracePeriodSeconds = ptr(int64(60)) // it is looked at while it ends
	w.create(p)
	w.wait("ends", running)
	w.delete("ends", metav1.DeleteOptions{})
	p = w.get("ends")
	if p.DeletionTimestamp == nil || p.Status.Phase != v1.PodRunning {
		w.t.Errorf("deleted %v, phase %s", p.DeletionTimestamp, p.Status.Phase)
	}
	if got := w.cell("ends", "Status"); got != "Terminating" {
		w.t.Errorf("shown as %q", got)
	}
}

func networkBeforeImages(w *fixture) {
	w.Fault("node-1", "PullImage", "hang")
	defer w.Fault("node-1", "PullImage", "")
	w.FaultPod("node-1", "ordered", "RunPodSandbox", "1*error(no network)->ok")
	p := scriptPod("ordered", "")
	p.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
	w.create(p)
	// While the pull hangs, everybody can see that the network is there.
	p = w.wait("ordered",
		func(p *v1.Pod) bool { return condition(p, v1.PodReadyToStartContainers).Status == v1.ConditionTrue })
	if p.Status.Phase != v1.PodPending {
		w.t.Errorf("phase %s", p.Status.Phase)
	}
	w.until("the pull", func() bool { return w.fact("ordered", "Pulling ") >= 0 })
	box, initialized, pull := w.fact("ordered", "Called CRI RunPodSandbox"),
		w.fact("ordered", "ConditionChanged PodReadyToStartContainers=True"), w.fact("ordered", "Pulling ")
	if box < 0 || initialized < box || pull < initialized {
		w.t.Errorf("sandbox at %d, condition at %d, pull at %d in the journal", box, initialized, pull)
	}
	for _, c := range w.Runtime("node-1").Calls() {
		if r, ok := c.Request.(*runtimeapi.CreateContainerRequest); ok && r.SandboxConfig.Metadata.Name == "ordered" {
			w.t.Error("a container was made before its image was there")
		}
	}
	w.delete("ordered", metav1.DeleteOptions{})
	w.waitForDeletion("ordered")
}

func initStatuses(w *fixture) {
	p := scriptPod("inits", "")
	p.Spec.InitContainers = []v1.Container{scriptContainer("zeta", "exit 0"), scriptContainer("alpha", "exit 0"),
		scriptContainer("mid", "exit 0")}
	p.Spec.InitContainers[1].RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
	p.Spec.InitContainers[1].Command = nil
	w.create(p)
	names := func(p *v1.Pod) (out []string) {
		for _, s := range p.Status.InitContainerStatuses {
			out = append(out, s.Name)
		}
		return out
	}
	p = w.wait("inits", running)
	if got := strings.Join(names(p), " "); got != "zeta alpha mid" {
		w.t.Errorf("statuses of %s", got)
	}
	if s := p.Status.InitContainerStatuses; len(s) == 3 && (s[0].State.Terminated == nil || s[1].State.Running == nil ||
		s[2].State.Terminated == nil) {
		w.t.Errorf("got %+v, want the sidecar running, the other two terminated", s)
	}
}

func sidecarRestarts(w *fixture) {
	p := scriptPod("sidecar", "")
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	p.Spec.InitContainers = []v1.Container{scriptContainer("side", "sleep 0.2; exit 0")}
	p.Spec.InitContainers[0].RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
	w.create(p)
	w.wait("sidecar", func(p *v1.Pod) bool {
		return p.Status.Phase == v1.PodRunning && len(p.Status.InitContainerStatuses) == 1 &&
			p.Status.InitContainerStatuses[0].RestartCount > 0
	})
	// The same policy does cover the others: a regular init container that fails ends its Pod.
	p = scriptPod("init-fails", "")
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	p.Spec.InitContainers = []v1.Container{scriptContainer("first", "exit 1")}
	w.create(p)
	if s := w.wait("init-fails", phase(v1.PodFailed)).Status.InitContainerStatuses[0]; s.RestartCount != 0 {
		w.t.Errorf("restarted %d times", s.RestartCount)
	}
}

func initImage(w *fixture) {
	p := scriptPod("images", "")
	p.Spec.InitContainers = []v1.Container{scriptContainer("first", "exit 0"), scriptContainer("second", "exit 0")}
	w.create(p)
	before := w.wait("images", running)
	patch := func(text string) error {
		_, err := w.Client.CoreV1().Pods("default").Patch(w.ctx, "images", types.StrategicMergePatchType, []byte(text),
			metav1.PatchOptions{})
		return err
	}
	w.expectRefusal(patch(`{"spec":{"initContainers":[{"name":"first","command":["true"]}]}}`),
		"Forbidden: pod updates may not change fields other than")
	expect.NoError(w.t, patch(`{"spec":{"initContainers":[{"name":"first","image":"app:2"}]}}`))
	expect.NoError(w.t, patch(`{"spec":{"initContainers":[{"name":"second","image":"app:2"}]}}`))
	generation := w.get("images").Generation
	after := w.wait("images", func(p *v1.Pod) bool { return p.Status.ObservedGeneration == generation })
	if a, b := after.Status,
		before.Status; a.InitContainerStatuses[0].ContainerID != b.InitContainerStatuses[0].ContainerID ||
		a.InitContainerStatuses[1].ContainerID != b.InitContainerStatuses[1].ContainerID ||
		a.ContainerStatuses[0].ContainerID != b.ContainerStatuses[0].ContainerID ||
		a.ContainerStatuses[0].RestartCount != 0 {
		w.t.Errorf("a new image of an init container restarted something: %+v", a)
	}
}

func sandboxDies(w *fixture) {
	p := scriptPod("revived", "")
	p.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	mounts := []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	first := scriptContainer("first",
		"if test -f /scratch/out; then echo again >> /scratch/out; else echo new > /scratch/out; fi")
	shows := scriptContainer("app", "sleep 1000")
	first.VolumeMounts, shows.VolumeMounts = mounts, mounts
	p.Spec.InitContainers, p.Spec.Containers = []v1.Container{first}, []v1.Container{shows}
	w.create(p)
	before := w.wait("revived", running)
	boxes, err := w.Runtime("node-1").ListPodSandbox(w.ctx,
		&runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{
				LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(before.UID)}}})
	expect.NoError(w.t, err)
	_, err = w.Runtime("node-1").StopPodSandbox(w.ctx,
		&runtimeapi.StopPodSandboxRequest{PodSandboxId: boxes.Items[0].Id})
	expect.NoError(w.t, err)
	after := w.wait("revived", func(p *v1.Pod) bool {
		return p.Status.Phase == v1.PodRunning && p.Status.ContainerStatuses[0].RestartCount == 1 &&
			p.Status.ContainerStatuses[0].State.Running != nil
	})
	boxes, err = w.Runtime("node-1").ListPodSandbox(w.ctx,
		&runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
			LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(before.UID)},
			State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
		}})
	expect.NoError(w.t, err)
	if len(boxes.Items) != 1 || boxes.Items[0].Metadata.Attempt != 1 ||
		after.Status.InitContainerStatuses[0].RestartCount != 1 {
		w.t.Errorf("sandboxes %v, init container %+v", boxes.Items, after.Status.InitContainerStatuses[0])
	}
	if got := w.exec(after, "cat", "/scratch/out"); got != "new\nagain\n" {
		w.t.Errorf("the runs of the init container left %q", got)
	}
}

// sharedEmptyDir: a sidecar reads what the app writes to a volume that both mount.
func sharedEmptyDir(w *fixture) {
	p := scriptPod("ships", "")
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	mounts := []v1.VolumeMount{{Name: "data", MountPath: "/opt"}}
	shipper, app := scriptContainer("logshipper", "sleep 1000"), scriptContainer("app",
		"echo logging >> /opt/logs.txt; sleep 1000")
	shipper.RestartPolicy, shipper.VolumeMounts, app.VolumeMounts = ptr(v1.ContainerRestartPolicyAlways), mounts, mounts
	p.Spec.InitContainers, p.Spec.Containers = []v1.Container{shipper}, []v1.Container{app}
	w.create(p)
	p = w.wait("ships", running)
	_, id, _ := strings.Cut(p.Status.InitContainerStatuses[0].ContainerID, "://")
	w.until("what the app wrote is what the sidecar reads", func() bool {
		r, err := w.Runtime("node-1").ExecSync(w.ctx, &runtimeapi.ExecSyncRequest{ContainerId: id,
			Cmd: []string{"cat", "/opt/logs.txt"}})
		expect.NoError(w.t, err)
		return string(r.Stdout) == "logging\n"
	})
}

func together(w *fixture) {
	p := scriptPod("together", "")
	never := &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "exit 1"}}},
		PeriodSeconds: 1, FailureThreshold: 1000}
	p.Spec.Containers = []v1.Container{{Name: "slow", Image: "app:1", StartupProbe: never},
		{Name: "quick", Image: "app:1"}}
	w.create(p)
	p = w.wait("together", func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 2 && p.Status.ContainerStatuses[0].Ready
	})
	for _, s := range p.Status.ContainerStatuses { // by name: quick, slow
		if s.State.Running == nil || (s.Name == "quick") != s.Ready {
			w.t.Errorf("%s: got %+v ready %t, want it running, and ready unless it is quick", s.Name, s.State, s.Ready)
		}
	}
}

// initWaits: one Pod's volume is missing, the other's network; neither's init container is made
// before it is there.
func initWaits(w *fixture) {
	made := func(pod string) bool {
		for _, c := range w.Runtime("node-1").Calls() {
			if r, ok := c.Request.(*runtimeapi.CreateContainerRequest); ok && r.SandboxConfig.Metadata.Name == pod {
				return true
			}
		}
		return false
	}
	p := scriptPod("waits", "")
	p.Spec.Volumes = []v1.Volume{
		{Name: "settings",
			VolumeSource: v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "late"}}}}}
	p.Spec.InitContainers = []v1.Container{scriptContainer("first", "exit 0")}
	p.Spec.InitContainers[0].VolumeMounts = []v1.VolumeMount{{Name: "settings", MountPath: "/settings"}}
	w.create(p)
	w.until("the volume to be missed", func() bool { return made("waits") || w.fact("waits", "VolumeWaiting") >= 0 })
	if made("waits") {
		w.t.Fatal("an init container was made before its volume was there")
	}
	_, err := w.Client.CoreV1().ConfigMaps("default").Create(w.ctx,
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	w.wait("waits", running)
	ready, volume, first := w.fact("waits", "ConditionChanged PodReadyToStartContainers=True"),
		w.fact("waits", "VolumeWaiting"), w.fact("waits", "Called CRI CreateContainer")
	if ready < 0 || first < ready || first < volume {
		w.t.Errorf("network ready at %d, volume missed at %d, first container made at %d in the journal", ready, volume,
			first)
	}
	w.FaultPod("node-1", "unplugged", "RunPodSandbox", "1*error(no network yet)->ok")
	p = scriptPod("unplugged", "")
	p.Spec.InitContainers = []v1.Container{scriptContainer("first", "exit 0")}
	w.create(p)
	w.until("the network to be missed", func() bool {
		events, err := w.Client.CoreV1().Events("default").List(w.ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=unplugged,reason=FailedCreatePodSandBox"})
		return made("unplugged") || err == nil && len(events.Items) > 0
	})
	w.wait("unplugged", running)
	ready, first = w.fact("unplugged", "ConditionChanged PodReadyToStartContainers=True"),
		w.fact("unplugged", "Called CRI CreateContainer")
	if ready < 0 || first < ready {
		w.t.Errorf("network ready at %d, first container made at %d in the journal", ready, first)
	}
}

func initFields(w *fixture) {
	p := scriptPod("fields", "")
	first := scriptContainer("first", "exit 0")
	first.Env = []v1.EnvVar{{Name: "COLOUR", Value: "red"}}
	first.WorkingDir, first.Ports = "/work",
		[]v1.ContainerPort{{Name: "init", ContainerPort: 81, Protocol: v1.ProtocolTCP}}
	first.Resources = v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")},
		Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}}
	first.SecurityContext = &v1.SecurityContext{RunAsUser: ptr(int64(1234)), ReadOnlyRootFilesystem: ptr(true),
		RunAsGroup: ptr(int64(77)), SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}, Add: []v1.Capability{"CHOWN"}}}
	first.Args = []string{"zero", "one"}
	first.VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch", ReadOnly: true}}
	p.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	p.Spec.InitContainers = []v1.Container{first}
	w.create(p)
	stored := w.wait("fields", running).Spec.InitContainers[0]
	if stored.Env[0] != first.Env[0] || stored.WorkingDir != "/work" || stored.Ports[0] != first.Ports[0] ||
		*stored.SecurityContext.RunAsUser != 1234 || !slices.Equal(stored.Args, first.Args) ||
		!stored.VolumeMounts[0].ReadOnly ||
		stored.Resources.Requests.Cpu().MilliValue() != 250 {
		w.t.Errorf("stored %+v", stored)
	}
	for _, c := range w.Runtime("node-1").Calls() {
		r, ok := c.Request.(*runtimeapi.CreateContainerRequest)
		if !ok || r.SandboxConfig.Metadata.Name != "fields" || r.Config.Metadata.Name != "first" {
			continue
		}
		l, env, mounted := r.Config.Linux, false, false
		for _, e := range r.Config.Envs {
			env = env || e.Key == "COLOUR" && string(e.Value) == "red"
		}
		for _, m := range r.Config.Mounts {
			mounted = mounted || m.ContainerPath == "/scratch" && m.Readonly
		}
		if !env || !mounted || r.Config.WorkingDir != "/work" || l.Resources.CpuShares != 256 ||
			l.Resources.MemoryLimitInBytes != 64<<20 ||
			l.SecurityContext.RunAsUser.GetValue() != 1234 || l.SecurityContext.RunAsGroup.GetValue() != 77 ||
			l.SecurityContext.Seccomp.GetProfileType() != runtimeapi.SecurityProfile_RuntimeDefault ||
			!slices.Contains(l.SecurityContext.Capabilities.AddCapabilities, "CHOWN") ||
			!slices.Equal(r.Config.Command, first.Command) || !slices.Equal(r.Config.Args, first.Args) ||
			!l.SecurityContext.ReadonlyRootfs ||
			!slices.Contains(l.SecurityContext.Capabilities.DropCapabilities, "ALL") {
			w.t.Errorf("the runtime was asked for %v", r.Config)
		}
		return
	}
	w.t.Error("the runtime was not asked for the init container")
}

// eventFields: the event of the start of an init container has every field that describe shows.
func eventFields(w *fixture) {
	p := scriptPod("told", "")
	p.Spec.InitContainers = []v1.Container{scriptContainer("first", "exit 0")}
	w.create(p)
	p = w.wait("told", running)
	var e v1.Event
	w.until("the start of the init container to be told", func() bool {
		list, err := w.Client.CoreV1().Events("default").List(w.ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=told,reason=Started"})
		expect.NoError(w.t, err)
		i := slices.IndexFunc(list.Items, func(e v1.Event) bool {
			return e.InvolvedObject.FieldPath != "spec.containers{app}"
		})
		if i >= 0 {
			e = list.Items[i]
		}
		return i >= 0
	})
	if o := e.InvolvedObject; o.Kind != "Pod" || o.APIVersion != "v1" || o.Namespace != "default" || o.Name != "told" ||
		o.UID != p.UID || o.FieldPath != "spec.initContainers{first}" {
		w.t.Errorf("got an event about %+v, want the init container of the Pod told", o)
	}
	if e.Type != v1.EventTypeNormal || e.Message != "Container started" || e.Count != 1 ||
		e.Source != (v1.EventSource{Component: "kubelet", Host: "node-1"}) || e.ReportingController != "kubelet" {
		w.t.Errorf("got %+v, want it Normal, of the kubelet on node-1, once", e)
	}
	if e.FirstTimestamp.IsZero() || e.LastTimestamp.Time.Before(e.FirstTimestamp.Time) ||
		e.FirstTimestamp.Time.Before(p.CreationTimestamp.Time) {
		w.t.Errorf("first seen %v, last seen %v of a Pod of %v", e.FirstTimestamp, e.LastTimestamp, p.CreationTimestamp)
	}
}

func debuggerEnds(w *fixture) {
	w.create(scriptPod("debugged", ""))
	w.wait("debugged", running)
	debug := func(c v1.EphemeralContainerCommon) error {
		raw, err := json.Marshal(map[string]any{"spec": map[string]any{
			"ephemeralContainers": []v1.EphemeralContainer{{EphemeralContainerCommon: c}}}})
		expect.NoError(w.t, err)
		_, err = w.Client.CoreV1().Pods("default").Patch(w.ctx, "debugged", types.StrategicMergePatchType, raw,
			metav1.PatchOptions{}, "ephemeralcontainers")
		return err
	}
	debugger := v1.EphemeralContainerCommon{Name: "debugger", Image: "app:1", Command: []string{"sh", "-c", "exit 3"}}
	guaranteed := debugger
	guaranteed.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1m")}
	w.expectRefusal(debug(guaranteed), "resources: Forbidden: cannot be set for an Ephemeral Container")
	expect.NoError(w.t, debug(debugger))
	ended := func(p *v1.Pod) bool {
		return len(p.Status.EphemeralContainerStatuses) == 1 &&
			p.Status.EphemeralContainerStatuses[0].State.Terminated != nil
	}
	p := w.wait("debugged", ended)
	if s := p.Status.EphemeralContainerStatuses[0]; s.State.Terminated.ExitCode != 3 || s.RestartCount != 0 ||
		!running(p) {
		w.t.Errorf("%+v in a Pod that is %s", s, p.Status.Phase)
	}
	// Something else of the Pod changes, and the debugger is looked at again.
	_, err := w.Client.CoreV1().Pods("default").Patch(w.ctx, "debugged", types.StrategicMergePatchType,
		[]byte(`{"spec":{"containers":[{"name":"app","image":"app:2"}]}}`), metav1.PatchOptions{})
	expect.NoError(w.t, err)
	p = w.wait("debugged", func(p *v1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	})
	if !ended(p) || p.Status.EphemeralContainerStatuses[0].RestartCount != 0 {
		w.t.Errorf("restarted: %+v", p.Status.EphemeralContainerStatuses[0])
	}
	starts := 0
	for _, e := range w.Journal("default", "debugged") {
		if s, ok := e.Fact.(journal.ContainerStarted); ok && s.Container == "debugger" {
			starts++
		}
	}
	if starts != 1 || p.Status.QOSClass != v1.PodQOSBestEffort {
		w.t.Errorf("started %d times in a Pod of class %s", starts, p.Status.QOSClass)
	}
}

func force(w *fixture) {
	asked, killed := make(chan struct{}), make(chan struct{})
	w.On(testcluster.Match{Pod: "stubborn"}, testcluster.Script{Main: func(p *testcluster.Process) int {
		<-p.Signal
		close(asked)
		<-p.Context.Done()
		close(killed)
		return 137
	}})
	p := scriptPod("stubborn", "")
	p.Spec.TerminationGracePeriodSeconds = ptr(int64(60))
	w.create(p)
	_, id, _ := strings.Cut(w.wait("stubborn", running).Status.ContainerStatuses[0].ContainerID, "://")
	w.delete("stubborn", metav1.DeleteOptions{GracePeriodSeconds: ptr(int64(0))})
	w.waitForDeletion("stubborn") // at once, long before its process
	for i, c := range []chan struct{}{asked, killed} {
		select {
		case <-c:
		case <-w.ctx.Done():
			w.t.Fatalf("signal %d of TERM, KILL never came", i)
		}
	}
	// the call, which is recorded when it has ended, says how long lies between the signals
	w.until("the stop of its container with a time to end", func() bool {
		return slices.ContainsFunc(w.Runtime("node-1").Calls(), func(c crifake.Call) bool {
			r, ok := c.Request.(*runtimeapi.StopContainerRequest)
			return ok && r.ContainerId == id && r.Timeout > 0
		})
	})
}

func fourCauses(w *fixture) {
	w.On(testcluster.Match{Pod: "greedy"},
		testcluster.Script{Main: func(p *testcluster.Process) int { p.OOMKilled(); return 137 }})
	broken, greedy, misled, sick := scriptPod("broken", "echo panic >&2; exit 7"), scriptPod("greedy", ""),
		scriptPod("misled", ""),
		scriptPod("sick", "")
	greedy.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("16Mi")}
	misled.Spec.Containers[0].Env = []v1.EnvVar{
		{Name: "TOKEN",
			ValueFrom: &v1.EnvVarSource{
				SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "no-such"},
					Key: "token"}}}}
	sick.Spec.Containers[0].LivenessProbe = &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "echo not well; exit 1"}}},
		PeriodSeconds: 1, FailureThreshold: 1}
	for _, p := range []*v1.Pod{broken, greedy, misled, sick} {
		w.create(p)
	}
	node, err := w.Client.CoreV1().Nodes().Get(w.ctx, "node-1", metav1.GetOptions{})
	expect.NoError(w.t, err)
	for name, words := range map[string][]string{
		"broken": {"exit code 7"}, "greedy": {"memory", "16Mi"}, "misled": {`secret "no-such" not found`},
		"sick": {"liveness"},
	} {
		answer := ""
		expect.EventuallyNoError(w.t, "the answer about "+name, func() error {
			a := explain.Why(explain.In{Now: time.Now(), Node: node, Ref: journal.Ref{Namespace: "default", Name: name},
				Pod: w.get(name), Entries: w.Journal("default", name)})
			answer = a.State + ": " + a.Cause
			for _, word := range words {
				if !strings.Contains(answer, word) {
					return fmt.Errorf("got %s, want %q in it", answer, words)
				}
			}
			return nil
		})
	}
}

func otherWriters(w *fixture) {
	p := scriptPod("tape", "exit 0")
	p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	p.Spec.Containers[0].Command = nil
	w.create(p)
	before := w.wait("tape", running)
	pods := w.Client.CoreV1().Pods("default")
	status := func(text string) {
		w.t.Helper()
		_, err := pods.Patch(w.ctx, "tape", types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{},
			"status")
		expect.NoError(w.t, err)
	}
	status(`{"status":{"conditions":[{"type":"example.com/gate","status":"True","reason":"TestSaysSo",` +
		`"lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`)
	ready := w.wait("tape", func(p *v1.Pod) bool { return condition(p, v1.PodReady).Status == v1.ConditionTrue })
	if got := condition(ready, "example.com/gate"); got.Reason != "TestSaysSo" {
		w.t.Errorf("the kubelet wrote another's condition: %+v", got)
	}
	if a, b := condition(before, v1.PodScheduled),
		condition(ready, v1.PodScheduled); a.LastTransitionTime != b.LastTransitionTime ||
		b.Status != v1.ConditionTrue {
		w.t.Errorf("the kubelet wrote the scheduler's condition: %+v, then %+v", a, b)
	}
	// Somebody claims what nobody has observed: the next report of the node says again what is.
	status(`{"status":{"phase":"Pending","message":"so they say"}}`)
	w.wait("tape", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning && p.Status.Message == "" })
	if got := condition(w.get("tape"), "example.com/gate"); got.Reason != "TestSaysSo" {
		w.t.Errorf("lost: %+v", got)
	}
}

// cgroupFirst: the kubelet's cgroup is there while the runtime is still asked for the sandbox below
// it.
func cgroupFirst(w *fixture) {
	w.FaultPod("node-1", "grouped", "RunPodSandbox", "1*delay(5s)->ok")
	w.create(scriptPod("grouped", ""))
	uid := string(w.get("grouped").UID)
	w.until("the cgroup", func() bool {
		left, err := w.LeftoverCgroups("node-1")
		expect.NoError(w.t, err)
		return slices.ContainsFunc(left,
			func(s string) bool { return strings.HasPrefix(s, "cgroup: ") && strings.HasSuffix(s, "pod"+uid) })
	})
	if i := w.fact("grouped", "Called CRI RunPodSandbox"); i >= 0 {
		w.t.Error("the sandbox was made before the cgroup")
	}
	w.wait("grouped", running)
	for _, c := range w.Runtime("node-1").Calls() {
		if r, ok := c.Request.(*runtimeapi.RunPodSandboxRequest); ok && r.Config.Metadata.Name == "grouped" &&
			!strings.HasSuffix(r.Config.Linux.CgroupParent, "pod"+uid) {
			w.t.Errorf("the runtime got %q", r.Config.Linux.CgroupParent)
		}
	}
}

func otherSystem(w *fixture) {
	p := scriptPod("foreign", "")
	p.Spec.OS = &v1.PodOS{Name: v1.Windows}
	w.create(p)
	w.wait("foreign", func(p *v1.Pod) bool { return p.Spec.NodeName == "node-1" })
	p = scriptPod("foreign-with-selector", "")
	p.Spec.OS, p.Spec.NodeSelector = &v1.PodOS{Name: v1.Windows}, map[string]string{v1.LabelOSStable: "windows"}
	w.create(p)
	p = w.wait("foreign-with-selector",
		func(p *v1.Pod) bool { return condition(p, v1.PodScheduled).Reason == v1.PodReasonUnschedulable })
	if p.Spec.NodeName != "" || !strings.Contains(condition(p, v1.PodScheduled).Message,
		"didn't match Pod's node affinity/selector") {
		w.t.Errorf("on: got %q: %s, want it empty and it to contain %q", p.Spec.NodeName,
			condition(p, v1.PodScheduled).Message, "didn't match Pod's node affinity/selector")
	}
}
