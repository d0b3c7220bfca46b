package podstatus_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
)

// A Pod that cannot be used says why in each condition that is False: with a reason, and where
// containers are the reason with their names.
//
// row: PRB-15
// row: PST-13
// row: PST-21
func TestContainersThatAreNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		unready []string
		want    string
	}{
		"one":        {[]string{"b"}, "[b]"},
		"the others": {[]string{"a", "c"}, "[a c]"},
		"all":        {[]string{"a", "b", "c"}, "[a b c]"},
	} {
		in := running(testPod("a", "b", "c"))
		for _, u := range c.unready {
			in.Health[u] = podplan.Health{Started: true}
		}
		s := podstatus.Generate(in)
		for _, kind := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
			got := condition(s, kind)
			if got.Status != v1.ConditionFalse || got.Reason != "ContainersNotReady" ||
				got.Message != "containers with unready status: "+c.want {
				t.Errorf("%s unready: got %s %s %q %q, want False ContainersNotReady with %s", name, kind, got.Status,
					got.Reason, got.Message, c.want)
			}
		}
	}
	is := func(state podplan.State, code int32) func(*podplan.Container) {
		return func(c *podplan.Container) { c.State, c.Exit.Code, c.Finished = state, code, now }
	}
	for name, change := range map[string]func(*podplan.Container){ // its probe's last answer was good
		"has ended well": is(podplan.Exited, 0), "has failed": is(podplan.Exited, 1),
		"is made": is(podplan.Created, 0), "is lost": is(podplan.Unknown, 0),
		"is not there": func(c *podplan.Container) { c.Name = "other" },
	} {
		in := running(testPod("a", "b"))
		change(&in.Observed.Containers[1])
		for _, kind := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
			if c := condition(podstatus.Generate(in), kind); c.Status != v1.ConditionFalse ||
				c.Message != "containers with unready status: [b]" {
				t.Errorf("one of two %s: got %s %s %q, want False that names b", name, kind, c.Status, c.Message)
			}
		}
	}
	in := running(testPod("a", "b"))
	in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{
		EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}} // it counts for nothing
	s := podstatus.Generate(in)
	if c := condition(s, v1.ContainersReady); c.Status != v1.ConditionTrue || c.Reason != "" || c.Message != "" {
		t.Errorf("all ready: got %+v, want True without reason and message", c)
	}
	in = running(testPod("a"))
	in.Pod.Spec.InitContainers = []v1.Container{{Name: "init"}} // it runs
	in.Observed.Containers = []podplan.Container{{ID: "i", Name: "init", Sandbox: "s", State: podplan.Running,
		Started: now}}
	if c := condition(podstatus.Generate(in), v1.ContainersReady); c.Status != v1.ConditionFalse ||
		c.Message != "containers with unready status: [a]" {
		t.Errorf("while an init container runs: got %s %q, want False that names a alone", c.Status, c.Message)
	}
}

// A sidecar that is not ready keeps its Pod from being ready; an init container does not.
//
// row: ISE-23
// row: PST-21
func TestReadinessOfSidecars(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	in := running(testPod("app"))
	in.Pod.Spec.InitContainers = []v1.Container{{Name: "side", RestartPolicy: &always}, {Name: "init"}}
	in.Observed.Containers = append(in.Observed.Containers,
		podplan.Container{ID: "1", Name: "side", Sandbox: "s", State: podplan.Running, Started: now},
		podplan.Container{ID: "2", Name: "init", Sandbox: "s", State: podplan.Exited, Started: now, Finished: now})
	in.Health["side"] = podplan.Health{Started: true}
	for _, kind := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
		c := condition(podstatus.Generate(in), kind)
		if c.Status != v1.ConditionFalse || c.Message != "containers with unready status: [side]" {
			t.Errorf("sidecar unready: got %s %s %q, want False that names side", kind, c.Status, c.Message)
		}
	}
	in.Health["app"] = podplan.Health{Started: true}
	if c := condition(podstatus.Generate(in), v1.ContainersReady); c.Message != "containers with unready status: "+
		"[side app]" {
		t.Errorf("sidecar and container unready: got %s %q, want both named", c.Status, c.Message)
	}
	ready := podplan.Health{Started: true, Ready: true}
	in.Health["side"], in.Health["app"] = ready, ready
	for _, kind := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
		if c := condition(podstatus.Generate(in), kind); c.Status != v1.ConditionTrue {
			t.Errorf("sidecar ready: got %s %s %q, want True", kind, c.Status, c.Message)
		}
	}
}

// Each condition has exactly the fields of the API that its state asks for.
//
// row: PST-13
func TestFieldsOfConditions(t *testing.T) {
	in := running(testPod("a"))
	in.Pod.Spec.InitContainers = []v1.Container{{Name: "first"}}
	in.Observed.Containers, in.Health = nil, map[string]podplan.Health{}
	const plain = "lastProbeTime lastTransitionTime observedGeneration status type"
	const why = "lastProbeTime lastTransitionTime message observedGeneration reason status type"
	for kind, want := range map[v1.PodConditionType]string{
		v1.PodReadyToStartContainers: plain, v1.PodInitialized: why, v1.ContainersReady: why, v1.PodReady: why,
		v1.PodScheduled: plain,
	} {
		raw, err := json.Marshal(condition(podstatus.Generate(in), kind))
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(fields)), " "); got != want {
			t.Errorf("%s: got fields %s, want %s", kind, got, want)
		}
		if fields["lastTransitionTime"] != "2026-01-01T00:00:10Z" {
			t.Errorf("%s: got lastTransitionTime %v, want the time of the change", kind, fields["lastTransitionTime"])
		}
	}
}

// A Pod whose sandbox is there but has no network, or is not ready any more, cannot start
// containers.
//
// row: PST-17
func TestReadyToStartContainers(t *testing.T) {
	const (
		none  = "False PodSandboxNotReady: no pod sandbox exists"
		died  = "False PodSandboxNotReady: pod sandbox is not ready"
		alone = "False PodSandboxNotReady: pod sandbox has no IP address"
		many  = "False PodSandboxNotReady: multiple pod sandboxes are ready and need to be reconciled"
		yes   = "True : "
	)
	ips := []string{"10.0.0.9"}
	for name, c := range map[string]struct {
		boxes []podplan.Sandbox
		host  bool
		want  string
	}{
		"no sandbox":                     {nil, false, none},
		"no sandbox, host":               {nil, true, none},
		"a sandbox with an address":      {[]podplan.Sandbox{{ID: "s", Ready: true, IPs: ips}}, false, yes},
		"a sandbox without a network":    {[]podplan.Sandbox{{ID: "s", Ready: true}}, false, alone},
		"on the node's network":          {[]podplan.Sandbox{{ID: "s", Ready: true}}, true, yes},
		"a sandbox that died":            {[]podplan.Sandbox{{ID: "s", IPs: ips}}, false, died},
		"a sandbox that died, host":      {[]podplan.Sandbox{{ID: "s"}}, true, died},
		"dead, and an older one is left": {[]podplan.Sandbox{{ID: "t"}, {ID: "s", Ready: true, IPs: ips}}, false, died},
		"another one, the older is dead": {[]podplan.Sandbox{{ID: "t", Ready: true, IPs: ips}, {ID: "s"}}, false, yes},
		"two that are ready": {[]podplan.Sandbox{{ID: "t", Ready: true, IPs: ips}, {ID: "s", Ready: true, IPs: ips}},
			false, many},
	} {
		in := running(testPod("a"))
		in.Observed.Sandboxes, in.Pod.Spec.HostNetwork = c.boxes, c.host
		got := condition(podstatus.Generate(in), v1.PodReadyToStartContainers)
		if text := fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message); text != c.want {
			t.Errorf("%s: got %s, want %s", name, text, c.want)
		}
		in.Node.V136 = true
		status, _, _ := strings.Cut(c.want, " ")
		got = condition(podstatus.Generate(in), v1.PodReadyToStartContainers)
		if text := fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message); text != status+" : " {
			t.Errorf("%s, emulating v1.36: got %s, want %s and no reason", name, text, status)
		}
	}
}

// A Pod that has been stopped keeps saying that its sandbox is not ready when the sandbox has been
// removed; one that never had one says that.
//
// row: PST-17
func TestTheSandboxOfAStoppedPodIsRemoved(t *testing.T) {
	shown := func(status v1.ConditionStatus, message string) []v1.PodCondition {
		return []v1.PodCondition{{Type: v1.PodReadyToStartContainers, Status: status, Message: message}}
	}
	const none, died = "no pod sandbox exists", "pod sandbox is not ready"
	for name, c := range map[string]struct {
		was     []v1.PodCondition
		stopped bool
		want    string
	}{
		"it was ready":                   {shown(v1.ConditionTrue, ""), true, died},
		"it was stopped":                 {shown(v1.ConditionFalse, died), true, died},
		"there was none":                 {shown(v1.ConditionFalse, none), true, none},
		"nothing was shown":              {nil, true, none},
		"the Pod gets another one":       {shown(v1.ConditionTrue, ""), false, none},
		"the Pod gets another one again": {shown(v1.ConditionFalse, died), false, none},
	} {
		in := running(testPod("a"))
		in.Observed.Sandboxes, in.Pod.Status.Conditions = nil, c.was
		if c.stopped {
			in.Facts.ContainersStopped = now
		}
		if got := condition(podstatus.Generate(in), v1.PodReadyToStartContainers); got.Status != v1.ConditionFalse ||
			got.Message != c.want {
			t.Errorf("%s: got %s %s, want False %s", name, got.Status, got.Message, c.want)
		}
	}
}

// A Pod is initialized before its sandbox is there when it has no init containers, and with them
// not before the last of them has succeeded.
//
// row: PST-19
func TestInitialized(t *testing.T) {
	ended := func(name string, code int32) podplan.Container {
		return podplan.Container{ID: name, Name: name, Sandbox: "s", State: podplan.Exited, Started: now, Finished: now,
			Exit: podplan.Exit{Code: code}}
	}
	runs := ended("two", 0)
	runs.State = podplan.Running
	sidecar := []v1.Container{{Name: "one"}, {Name: "two", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
	for _, c := range []struct {
		name  string
		inits []v1.Container
		seen  []podplan.Container
		want  string
	}{
		{"no init containers, no sandbox", nil, nil, "True "},
		{"none has run", []v1.Container{{Name: "one"}, {Name: "two"}}, nil, "False [one two]"},
		{"the first has succeeded", []v1.Container{{Name: "one"}, {Name: "two"}}, []podplan.Container{ended("one", 0)},
			"False [two]"},
		{"the last runs", []v1.Container{{Name: "one"}, {Name: "two"}}, []podplan.Container{runs, ended("one", 0)},
			"False [two]"},
		{"the last has failed", []v1.Container{{Name: "one"}, {Name: "two"}},
			[]podplan.Container{ended("two", 1), ended("one", 0)}, "False [two]"},
		{"all have succeeded", []v1.Container{{Name: "one"}, {Name: "two"}},
			[]podplan.Container{ended("two", 0), ended("one", 0)}, "True "},
		{"a sidecar runs and has not started", sidecar, []podplan.Container{runs, ended("one", 0)}, "False [two]"},
		{"a sidecar has started", sidecar, []podplan.Container{runs, ended("one", 0)}, "True "},
	} {
		in := running(testPod("a"))
		in.Health["two"] = podplan.Health{Started: c.name == "a sidecar has started"}
		in.Pod.Spec.InitContainers, in.Observed.Containers = c.inits, c.seen
		if c.inits == nil {
			in.Observed.Sandboxes = nil
		}
		got := condition(podstatus.Generate(in), v1.PodInitialized)
		_, names, _ := strings.Cut(got.Message, "containers with incomplete status: ")
		if said := string(got.Status) + " " + names; said != c.want {
			t.Errorf("%s: got Initialized %s, want %s", c.name, said, c.want)
		}
	}
}

// A Pod is Running once all its containers have been started, not before: one that runs is not
// enough.
//
// row: PST-02
// row: PST-03
// row: PST-07
func TestPendingUntilAllContainersAreStarted(t *testing.T) {
	in := running(testPod("a", "b"))
	b := in.Observed.Containers[1]
	for _, c := range []struct {
		name  string
		boxes []podplan.Sandbox
		seen  []podplan.Container
		waits bool
		want  v1.PodPhase
	}{
		{"no sandbox", nil, nil, false, v1.PodPending},
		{"a sandbox without containers", in.Observed.Sandboxes, nil, false, v1.PodPending},
		{"one runs, the other's image is pulled", in.Observed.Sandboxes, in.Observed.Containers[:1], true,
			v1.PodPending},
		{"both run", in.Observed.Sandboxes, in.Observed.Containers, false, v1.PodRunning},
		{"both have ended and will be restarted", in.Observed.Sandboxes,
			[]podplan.Container{{ID: "1", Name: "a", Sandbox: "s", Started: now, Finished: now, State: podplan.Exited},
				{ID: "2", Name: "b", Sandbox: "s", Started: now, Finished: now, State: podplan.Exited}}, true,
			v1.PodRunning},
		{"one runs, the other has ended and will be restarted", in.Observed.Sandboxes,
			[]podplan.Container{in.Observed.Containers[0], {ID: b.ID, Name: b.Name, Sandbox: b.Sandbox, Started: now,
				Finished: now, State: podplan.Exited, Exit: podplan.Exit{Code: 1}}}, true, v1.PodRunning},
	} {
		in := in
		in.Pod = in.Pod.DeepCopy()
		in.Pod.Status.Phase = v1.PodPending
		if c.waits {
			in.Waiting = map[string]podstatus.WaitingReason{"b": {Reason: "CrashLoopBackOff"}}
		}
		in.Observed = podplan.Observed{Sandboxes: c.boxes, Containers: c.seen}
		if got := podstatus.Generate(in).Phase; got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// Exactly one state is set, and a container that waits says for what: for its Pod's init containers
// when there are any, else for its creation, or for what the kubelet told of it.
//
// row: PST-26
// row: PST-27
// row: PST-28
// row: PST-29
// row: PST-30
func TestContainerStates(t *testing.T) {
	in := running(testPod("creating", "runs", "ended", "backs-off"))
	in.Observed.Containers[2].State, in.Observed.Containers[2].Exit.Code = podplan.Exited, 3
	in.Observed.Containers[2].Exit.Reason, in.Observed.Containers[2].Finished = "Error", now.Add(time.Second)
	in.Observed.Containers[3].State = podplan.Exited
	in.Waiting = map[string]podstatus.WaitingReason{"backs-off": {Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
	in.Observed.Containers = in.Observed.Containers[1:]
	states := func(in podstatus.In) string {
		var out []string
		for _, st := range podstatus.Generate(in).ContainerStatuses {
			s, text := st.State, ""
			if s.Waiting != nil {
				text += " waiting " + s.Waiting.Reason
			}
			if s.Running != nil {
				text += " running"
			}
			if s.Terminated != nil {
				text += " terminated " + s.Terminated.Reason
			}
			out = append(out, st.Name+text)
		}
		return strings.Join(out, ", ")
	}
	ended := podstatus.Generate(in).ContainerStatuses[2].State.Terminated
	if ended == nil || ended.ExitCode != 3 || ended.Reason != "Error" || !ended.StartedAt.Time.Equal(now) ||
		!ended.FinishedAt.Time.Equal(now.Add(time.Second)) {
		t.Errorf("got %+v, want exit code 3, reason Error, started at %s and finished a second later", ended, now)
	}
	if at := podstatus.Generate(in).ContainerStatuses[3].State.Running.StartedAt; !at.Time.Equal(now) {
		t.Errorf("running since %s, want %s", at, now)
	}
	want := "backs-off waiting CrashLoopBackOff, creating waiting ContainerCreating, ended terminated Error, runs " +
		"running"
	backs := in
	backs.BackOffs, backs.Waiting = in.Waiting, nil
	for _, in := range []podstatus.In{in, backs} {
		if got := states(in); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	in = running(testPod("runs", "never-started", "again"))
	in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
	in.Pod.Spec.Containers[2].RestartPolicy = new(v1.ContainerRestartPolicyOnFailure)
	for i := 1; i < 3; i++ {
		in.Observed.Containers[i].State = podplan.Exited
		in.Observed.Containers[i].Exit = podplan.Exit{Code: 128, Reason: "StartError"}
	}
	in.Waiting = map[string]podstatus.WaitingReason{"never-started": {Reason: "RunContainerError"},
		"again": {Reason: "RunContainerError"}}
	want = "again waiting RunContainerError, never-started terminated StartError, runs running"
	if got := states(in); got != want {
		t.Errorf("one that is not started again beside one that is: got %s, want %s", got, want)
	}
	for code, want := range map[int32]string{0: "terminated", 1: "waiting"} {
		in = running(testPod("app"))
		in.Pod.Spec.InitContainers = []v1.Container{{Name: "side",
			RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
		in.Observed.Containers = append(in.Observed.Containers, podplan.Container{ID: "9", Name: "side", Sandbox: "s",
			State: podplan.Exited, Started: now, Finished: now, Exit: podplan.Exit{Code: code}})
		in.Waiting = map[string]podstatus.WaitingReason{"side": {Reason: "CrashLoopBackOff"}}
		backs := in
		backs.BackOffs, backs.Waiting = in.Waiting, nil
		for _, in := range []podstatus.In{in, backs} {
			got := ""
			st := podstatus.Generate(in).InitContainerStatuses[0].State
			if st.Waiting != nil {
				got += "waiting"
			}
			if st.Terminated != nil {
				got += "terminated"
			}
			if got != want || st.Running != nil {
				t.Errorf("a sidecar in back-off that ended with %d: got %s, want %s", code, got, want)
			}
		}
	}
	in = running(testPod("app"))
	in.Observed.Containers = nil
	in.Pod.Spec.InitContainers = []v1.Container{{Name: "first"}}
	if got, want := states(in), "app waiting PodInitializing"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	in.Pod.Spec.InitContainers = []v1.Container{{Name: "zeta"}, {Name: "alpha"},
		{Name: "mid", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
	in.Observed.Containers = []podplan.Container{{ID: "z", Name: "zeta", Sandbox: "s", State: podplan.Exited,
		Started: now, Finished: now, Exit: podplan.Exit{Reason: "Completed"}}}
	in.Waiting = map[string]podstatus.WaitingReason{"alpha": {Reason: "ErrImagePull"}}
	inits := ""
	second := in
	second.Waiting = nil
	second.Observed.Containers = append(slices.Clone(in.Observed.Containers), podplan.Container{ID: "a", Name: "alpha",
		Sandbox: "s", State: podplan.Running, Started: now})
	for _, st := range slices.Concat(podstatus.Generate(in).InitContainerStatuses,
		podstatus.Generate(second).InitContainerStatuses) {
		inits += st.Name
		if st.State.Running != nil {
			inits += " runs"
		}
		if ended := st.State.Terminated; ended != nil {
			inits += " " + ended.Reason
		}
		if waits := st.State.Waiting; waits != nil {
			inits += " " + waits.Reason
		}
		inits += ", "
	}
	if want := "zeta Completed, alpha ErrImagePull, mid PodInitializing, " +
		"zeta Completed, alpha runs, mid PodInitializing, "; inits != want {
		t.Errorf("init containers: got %s, want %s", inits, want)
	}
	in = running(testPod("creating", "runs")) // over, and nobody has seen either of them end
	in.Observed.Containers, in.Facts.ContainersStopped = in.Observed.Containers[1:], now
	if got, want := states(in), "creating terminated ContainerStatusUnknown, runs terminated "+
		"ContainerStatusUnknown"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	in = running(testPod("app"))
	in.Pod.Spec.RestartPolicy, in.Pod.Spec.InitContainers = v1.RestartPolicyNever, []v1.Container{{Name: "first"}}
	in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{
		{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	in.Observed.Containers = []podplan.Container{{ID: "f", Name: "first", Sandbox: "s", State: podplan.Exited,
		Started: now, Finished: now, Exit: podplan.Exit{Code: 1, Reason: "Error"}}}
	out := podstatus.Generate(in)
	if st := out.InitContainerStatuses[0]; st.State.Terminated == nil || st.Ready {
		t.Errorf("a failed init container: got %+v, want it terminated and not ready", st)
	}
	if s := out.EphemeralContainerStatuses[0].State; s.Waiting == nil || s.Waiting.Reason != "ContainerCreating" {
		t.Errorf("an ephemeral container beside init containers: got %+v, want ContainerCreating", s)
	}
}
