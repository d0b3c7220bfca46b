package podstatus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
)

// withInit is a Pod with an init container i and app containers a and b, whose containers are as
// the words say: NAME=run, NAME=made, NAME=CODE (ended), all in the sandbox s, or in another with
// NAME@.
func withInit(policy v1.RestartPolicy, words ...string) podstatus.In {
	p := testPod("a", "b")
	p.Spec.RestartPolicy = policy
	p.Spec.InitContainers = []v1.Container{{Name: "i", Image: "img"}}
	in := running(p)
	in.Observed.Containers = nil
	for _, w := range words {
		c := podplan.Container{Sandbox: "s", Started: now, Name: w[:1], ID: "id-" + w[:1]}
		if w = w[1:]; w[0] == '@' {
			c.Sandbox, w = "before", w[1:]
		}
		switch w = w[1:]; w {
		case "run":
			c.State = podplan.Running
		case "made":
			c.State, c.Started = podplan.Created, time.Time{}
		default:
			c.State, c.Finished = podplan.Exited, now
			_, _ = fmt.Sscan(w, &c.Exit.Code) // the table's own numbers
		}
		in.Observed.Containers = append(in.Observed.Containers, c)
	}
	in.Observed.Sort()
	return in
}

// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-phase
//
// row: PST-02
// row: PST-03
// row: PST-04
// row: PST-05
// row: PST-20
func TestPhases(t *testing.T) {
	never, always, onFailure := v1.RestartPolicyNever, v1.RestartPolicyAlways, v1.RestartPolicyOnFailure
	stopped := func(in *podstatus.In) { in.Facts.ContainersStopped = now }
	bare := func(in *podstatus.In) { in.Observed.Sandboxes = nil }
	died := func(in *podstatus.In) { in.Observed.Sandboxes[0].Ready = false }
	was := func(p v1.PodPhase) func(*podstatus.In) {
		return func(in *podstatus.In) { in.Pod.Status.Phase = p }
	}
	sidecar := func(in *podstatus.In) {
		in.Pod.Spec.InitContainers = append([]v1.Container{{Name: "s", Image: "img",
			RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}, in.Pod.Spec.InitContainers...)
	}
	for _, c := range []struct {
		name   string
		in     podstatus.In
		change []func(*podstatus.In)
		want   v1.PodPhase
	}{
		{"the init container has failed for good, a sidecar runs", withInit(never, "s=run", "i=1"),
			[]func(*podstatus.In){sidecar}, v1.PodFailed},
		{"the init container is tried again, a sidecar runs", withInit(always, "s=run", "i=1"),
			[]func(*podstatus.In){sidecar}, v1.PodPending},
		{"all have ended well, a sidecar runs", withInit(never, "s=run", "i=0", "a=0", "b=0"),
			[]func(*podstatus.In){sidecar}, v1.PodRunning},
		{"nothing yet", withInit(always), nil, v1.PodPending},
		{"the init container runs", withInit(always, "i=run"), nil, v1.PodPending},
		{"the init container has failed and is tried again", withInit(always, "i=1"), nil, v1.PodPending},
		{"the init container has failed for good", withInit(never, "i=1"), nil, v1.PodFailed},
		{"all run", withInit(always, "i=0", "a=run", "b=run"), nil, v1.PodRunning},
		{"one runs, one has ended well", withInit(never, "i=0", "a=run", "b=0"), nil, v1.PodRunning},
		{"all have ended well", withInit(never, "i=0", "a=0", "b=0"), nil, v1.PodSucceeded},
		{"one has failed", withInit(never, "i=0", "a=0", "b=1"), nil, v1.PodFailed},
		{"the first has failed", withInit(never, "i=0", "a=1", "b=0"), nil, v1.PodFailed},
		{"one was killed", withInit(never, "i=0", "a=137", "b=0"), nil, v1.PodFailed},
		{"one has failed, the other runs", withInit(never, "i=0", "a=1", "b=run"), nil, v1.PodRunning},
		{"one has ended well, the other is made", withInit(never, "i=0", "a=0", "b=made"), nil, v1.PodPending},
		{"one ended well, the other fails and is started again", withInit(onFailure, "i=0", "a=0", "b=1"), nil,
			v1.PodRunning},
		{"all have ended well, and OnFailure", withInit(onFailure, "i=0", "a=0", "b=0"), nil, v1.PodSucceeded},
		{"all have ended well, and Always", withInit(always, "i=0", "a=0", "b=0"), nil, v1.PodRunning},
		{"the init container fails and OnFailure", withInit(onFailure, "i=1"), nil, v1.PodPending},
		{"the init container has ended, nothing more", withInit(never, "i=0"), nil, v1.PodPending},
		{"one runs, the other is made", withInit(always, "i=0", "a=run", "b=made"), nil, v1.PodPending},
		{"they are started again", withInit(always, "i=0", "a=0", "b=1"), nil, v1.PodRunning},
		{"it has failed", withInit(always, "i=0", "a=run", "b=run"), []func(*podstatus.In){was(v1.PodFailed)},
			v1.PodFailed},
		{"it has succeeded", withInit(always, "i=0", "a=run", "b=run"), []func(*podstatus.In){was(v1.PodSucceeded)},
			v1.PodSucceeded},
		{"a new sandbox, the init container not yet", withInit(always, "i@=0", "a@=1", "b@=1"), nil, v1.PodRunning},
		{"a new sandbox, the init container runs", withInit(always, "i=run", "a@=1", "b@=1"), nil, v1.PodPending},
		{"a new sandbox, the init container had failed", withInit(always, "i@=1", "a@=1"), nil, v1.PodPending},
		{"a new sandbox, no app container had run", withInit(always, "i@=0"), nil, v1.PodPending},
		{"the sandbox died, all will run again", withInit(always, "i=0", "a=1", "b=137"),
			[]func(*podstatus.In){died, was(v1.PodRunning)}, v1.PodRunning},
		{"the sandbox died before an app container ran", withInit(always, "i=0"), []func(*podstatus.In){died},
			v1.PodPending},
		{"no sandbox, and it ran", withInit(always, "i@=0", "a@=1", "b@=1"), []func(*podstatus.In){bare,
			was(v1.PodRunning)},
			v1.PodRunning},
		{"no sandbox, and it was never shown", withInit(always, "i@=0", "a@=1", "b@=1"), []func(*podstatus.In){bare},
			v1.PodPending},
		{"no sandbox, nothing ran", withInit(always), []func(*podstatus.In){bare, was(v1.PodRunning)}, v1.PodPending},
		{"past its deadline", withInit(always, "i=0", "a=run", "b=run"), []func(*podstatus.In){func(in *podstatus.In) {
			in.End = &podplan.Termination{Reason: podplan.DeadlineReason}
		}}, v1.PodFailed},
		{"ended for another reason", withInit(always, "i=0", "a=run", "b=run"),
			[]func(*podstatus.In){func(in *podstatus.In) {
				in.End = &podplan.Termination{Reason: "Evicted"}
			}}, v1.PodRunning},
		{"stopped, all ended well", withInit(always, "i=0", "a=0", "b=0"), []func(*podstatus.In){stopped},
			v1.PodSucceeded},
		{"stopped, one failed", withInit(always, "i=0", "a=0", "b=1"), []func(*podstatus.In){stopped}, v1.PodFailed},
		{"stopped, the first failed", withInit(always, "i=0", "a=1", "b=0"), []func(*podstatus.In){stopped},
			v1.PodFailed},
		{"stopped by the system, one did not end by itself", withInit(always, "i=0", "a=0", "b=137"),
			[]func(*podstatus.In){stopped}, v1.PodFailed},
		{"stopped, one was never seen", withInit(always, "i=0", "a=0"), []func(*podstatus.In){stopped}, v1.PodFailed},
		{"past its deadline, all ended well", withInit(always, "i=0", "a=0", "b=0"),
			[]func(*podstatus.In){stopped, func(in *podstatus.In) {
				in.End = &podplan.Termination{Reason: podplan.DeadlineReason}
			}}, v1.PodFailed},
	} {
		for _, f := range c.change {
			f(&c.in)
		}
		s := v1.PodStatus{ContainerStatuses: podstatus.Generate(c.in).ContainerStatuses}
		if got := podstatus.Phase(c.in, s); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// A last phase is shown when nothing can run any more; until then what was shown stays.
//
// row: PST-04
// row: PST-05
func TestTheLastPhaseWaits(t *testing.T) {
	for _, c := range []struct {
		name    string
		was     v1.PodPhase
		stopped bool
		words   []string
		want    v1.PodPhase
	}{
		{"nothing was shown", "", false, []string{"i=0", "a=0", "b=0"}, v1.PodPending},
		{"it was pending, and ran", v1.PodPending, false, []string{"i=0", "a=0", "b=0"}, v1.PodRunning},
		{"it was pending, and its init container failed", v1.PodPending, false, []string{"i=1"}, v1.PodPending},
		{"it ran", v1.PodRunning, false, []string{"i=0", "a=0", "b=0"}, v1.PodRunning},
		{"nothing runs", v1.PodRunning, true, []string{"i=0", "a=0", "b=0"}, v1.PodSucceeded},
		{"nothing runs, one failed", v1.PodPending, true, []string{"i=0", "a=0", "b=3"}, v1.PodFailed},
	} {
		in := withInit(v1.RestartPolicyNever, c.words...)
		in.Pod.Status.Phase = c.was
		if c.stopped {
			in.Facts.ContainersStopped = now
		}
		if got := podstatus.Generate(in).Phase; got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// Containers that only the API knows of keep what they were.
//
// row: ISE-11
func TestContainersTheRuntimeLost(t *testing.T) {
	at := func(s int64) metav1.Time { return metav1.NewTime(time.Unix(s, 0)) }
	ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "m",
		StartedAt: at(1), FinishedAt: at(2)}}
	ran := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at(1)}}
	waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for _, c := range []struct {
		name   string
		status v1.ContainerStatus
		want   string
	}{
		{"ended", v1.ContainerStatus{Name: "c", ContainerID: "id", RestartCount: 4, State: ended, Image: "i",
			ImageID: "r"},
			"id c 4 false 1 2 3 Error m i r"},
		{"ran", v1.ContainerStatus{Name: "c", ContainerID: "id", State: ran}, "id c 0 false 1 - 137 " +
			"ContainerStatusUnknown The container could not be located when the pod was deleted.  The container " +
			"used to be Running  "},
		{"was to be started again", v1.ContainerStatus{Name: "c", ContainerID: "id", State: waits,
			LastTerminationState: ended}, "id c 0 true 1 2 3 Error m  "},
		{"waited, and never ran", v1.ContainerStatus{Name: "c", ContainerID: "id", State: waits}, ""},
		{"no record", v1.ContainerStatus{Name: "c", State: ended}, ""},
		{"nothing is known", v1.ContainerStatus{Name: "c", ContainerID: "id"}, ""},
		{"the runtime has it", v1.ContainerStatus{Name: "here", ContainerID: "id", State: ended}, ""},
	} {
		have := podplan.Observed{Containers: []podplan.Container{{Name: "here", ID: "x"}}}
		for i, s := range []v1.PodStatus{{ContainerStatuses: []v1.ContainerStatus{c.status}},
			{InitContainerStatuses: []v1.ContainerStatus{c.status}},
			{EphemeralContainerStatuses: []v1.ContainerStatus{c.status}}} {
			got := ""
			seen := podstatus.MergeKnown(have, s)
			for _, k := range seen.Containers {
				if k.Name == "here" {
					continue
				}
				got = fmt.Sprintf("%s %s %d %v %s %s %d %s %s %s %s", k.ID, k.Name, k.Attempt, k.Restarting,
					seconds(k.Started), seconds(k.Finished), k.Exit.Code, k.Exit.Reason, k.Exit.Message, k.Image.Name,
					k.Image.Ref)
				if k.State != podplan.Exited || k.Annotations.CrashDelay >= 0 || k.Sandbox != "" ||
					seen.Containers[0].Name != "c" {
					t.Errorf("%s: got %+v, want one that has ended, without a sandbox, first by name", c.name, k)
				}
			}
			if got != c.want {
				t.Errorf("%s, list %d: got %q, want %q", c.name, i, got, c.want)
			}
		}
		if len(have.Containers) != 1 || have.Containers[0].ID != "x" {
			t.Errorf("%s: what was observed is changed", c.name)
		}
	}
}

func seconds(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprint(t.Unix())
}

// What a container's status says of mounts and sizes.
func TestMountsAndSizes(t *testing.T) {
	p := testPod("a")
	enabled, possible := v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible
	c := &p.Spec.Containers[0]
	c.VolumeMounts = []v1.VolumeMount{{Name: "rw", MountPath: "/rw"}, {Name: "ro", MountPath: "/ro", ReadOnly: true},
		{Name: "rro", MountPath: "/rro", ReadOnly: true, RecursiveReadOnly: &enabled},
		{Name: "maybe", MountPath: "/m", ReadOnly: true, RecursiveReadOnly: &possible}}
	list := func(cpu string) v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)} }
	c.Resources = v1.ResourceRequirements{Requests: list("2"), Limits: list("3"),
		Claims: []v1.ResourceClaim{{Name: "gpu"}}}
	in := running(p)
	in.Resizes.Applied = podplan.Applied{"a": {Requests: list("1")}}
	show := func(st v1.ContainerStatus) string {
		out := ""
		for _, m := range st.VolumeMounts {
			mode := "-"
			if m.RecursiveReadOnly != nil {
				mode = string(*m.RecursiveReadOnly)
			}
			out += fmt.Sprintf("%s %s %v %s; ", m.Name, m.MountPath, m.ReadOnly, mode)
		}
		return out + fmt.Sprintf("%s %s %s %v", st.AllocatedResources.Cpu(), st.Resources.Requests.Cpu(),
			st.Resources.Limits.Cpu(), st.Resources.Claims)
	}
	const mounts = "rw /rw false -; ro /ro true Disabled; rro /rro true Enabled; maybe /m true Disabled; "
	if got, want := show(podstatus.Generate(in).ContainerStatuses[0]), mounts+"2 1 0 [{gpu }]"; got != want {
		t.Errorf("it runs with less: got  %s\nwant %s", got, want)
	}
	in.Observed.Containers[0].State = podplan.Exited
	if got, want := show(podstatus.Generate(in).ContainerStatuses[0]), mounts+"2 2 3 [{gpu }]"; got != want {
		t.Errorf("it has ended: got  %s\nwant %s", got, want)
	}
	in.RecursiveReadOnly = true
	if got := show(podstatus.Generate(in).ContainerStatuses[0]); !strings.Contains(got, "ro /ro true Disabled; ") ||
		!strings.Contains(got, "maybe /m true Enabled; ") {
		t.Errorf("the runtime can mount read-only to the end: got %s, want it for the mount that asks for it", got)
	}
}

// A Pod's addresses: those of its sandbox, or of its host; a node that does not know its own yet
// says nothing.
//
// row: NET-08
func TestAddresses(t *testing.T) {
	in := running(testPod("a"))
	in.Node.HostIPs = []string{"192.0.2.1", "2001:db8::1"}
	in.Pod.Spec.HostNetwork = true
	s := podstatus.Generate(in)
	if got := fmt.Sprintln(s.HostIP, s.HostIPs, s.PodIP, s.PodIPs); got !=
		"192.0.2.1 [{192.0.2.1} {2001:db8::1}] 192.0.2.1 [{192.0.2.1} {2001:db8::1}]\n" {
		t.Errorf("on the host's network: got %s, want the host's addresses twice", got)
	}
	in.Node.HostIPs = nil
	if s := podstatus.Generate(in); s.HostIP != "" || s.HostIPs != nil || s.PodIP != "" || s.PodIPs != nil {
		t.Errorf("no address is known: got %+v, want none", s)
	}
	in = running(testPod("a"))
	in.Observed.Sandboxes[0].Ready = false
	if s := podstatus.Generate(in); s.PodIP != "" {
		t.Errorf("the sandbox is not ready: got %s, want none", s.PodIP)
	}
}

// The start is when the Pod was taken in, in whole seconds; what was shown stays.
func TestStartTime(t *testing.T) {
	in := running(testPod("a"))
	in.Facts.Accepted = now.Add(-time.Minute + time.Millisecond)
	if got := podstatus.Generate(in).StartTime; got == nil || !got.Time.Equal(now.Add(-time.Minute)) {
		t.Errorf("got %v, want %v", got, now.Add(-time.Minute))
	}
	in.Pod.Status.StartTime = new(metav1.NewTime(now.Add(-time.Hour)))
	if got := podstatus.Generate(in).StartTime; got == nil || !got.Time.Equal(now.Add(-time.Hour)) {
		t.Errorf("one was shown: got %v, want it kept", got)
	}
	in = running(testPod("a"))
	in.Facts.Accepted = time.Time{}
	if got := podstatus.Generate(in).StartTime; got != nil {
		t.Errorf("it was not taken in: got %v, want none", got)
	}
}

// A container's id has its runtime's name, once; devices are those that are known, or were shown.
func TestContainerIDsAndDevices(t *testing.T) {
	in := running(testPod("a", "b", "c"))
	in.Observed.Containers[1].ID, in.Observed.Containers[2].ID = "", "cri-o://x"
	old := []v1.ResourceStatus{{Name: "example.com/old"}}
	in.Pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "a", AllocatedResourcesStatus: old},
		{Name: "b", AllocatedResourcesStatus: old}}
	in.AllocatedResources = map[string][]v1.ResourceStatus{"b": {{Name: "example.com/new"}}, "c": {}}
	got := ""
	for _, st := range podstatus.Generate(in).ContainerStatuses {
		got += fmt.Sprintf("%s %v; ", st.ContainerID, st.AllocatedResourcesStatus)
	}
	if want := "containerd://id-a [{example.com/old []}];  [{example.com/new []}]; cri-o://x []; "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A resize that waits and one that is under way are conditions of a Pod that has not ended.
func TestResizeConditions(t *testing.T) {
	in := withInit(v1.RestartPolicyNever, "i=0", "a=run", "b=0")
	in.Resizes.Pending = &podstatus.Resize{Reason: "Deferred", Message: "m", Generation: 3}
	in.Resizes.Running = &podstatus.Resize{Reason: "Error", Generation: 2}
	show := func() string {
		s := podstatus.Generate(in)
		p, r := condition(s, v1.PodResizePending), condition(s, v1.PodResizeInProgress)
		return fmt.Sprintln(p.Status, p.Reason, p.Message, p.ObservedGeneration, r.Status, r.Reason,
			r.ObservedGeneration)
	}
	if got, want := show(), "True Deferred m 3 True Error 2\n"; got != want {
		t.Errorf("it runs: got %q, want %q", got, want)
	}
	in.Observed.Containers[0].State, in.Facts.ContainersStopped = podplan.Exited, now
	if got, want := show(), "   0   0\n"; got != want {
		t.Errorf("it has ended: got %q, want %q", got, want)
	}
}
