package podstatus_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/test/wrappers"
)

var now = time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)

func testPod(names ...string) *v1.Pod {
	p := wrappers.MakePod().Namespace("default").Name("p").UID("u").Generation(2).RestartPolicy(v1.RestartPolicyAlways)
	for _, n := range names {
		p.Container(n, "img")
	}
	return p.Obj()
}

// running is the input of a Pod whose containers all run and are ready.
func running(p *v1.Pod) podstatus.In {
	in := podstatus.In{
		Pod: p, Now: now, Facts: podplan.Facts{Accepted: now}, Health: map[string]podplan.Health{},
		Node: podstatus.Node{HostIPs: []string{"192.0.2.1"}, Runtime: "containerd"},
		Observed: podplan.Observed{
			Sandboxes: []podplan.Sandbox{{ID: "s", Ready: true, IPs: []string{"10.0.0.9", "fd00::9"}}}},
	}
	for _, c := range p.Spec.Containers {
		in.Observed.Containers = append(in.Observed.Containers, podplan.Container{ID: "id-" + c.Name, Name: c.Name,
			Sandbox: "s", State: podplan.Running, Started: now})
		in.Health[c.Name] = podplan.Health{Started: true, Ready: true}
	}
	return in
}

func condition(s v1.PodStatus, kind v1.PodConditionType) v1.PodCondition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.PodCondition{}
}

// row: PST-03
// row: PST-12
// row: PST-16
// row: PST-26
// row: DWN-04
// row: NET-03
func TestStatusOfARunningPod(t *testing.T) {
	s := podstatus.Generate(running(testPod("b", "a")))
	if got := fmt.Sprint(s.PodIPs); got != "[{10.0.0.9} {fd00::9}]" {
		t.Errorf("podIPs %s, want the sandbox's of both families", got)
	}
	if s.Phase != v1.PodRunning || s.PodIP != "10.0.0.9" || len(s.PodIPs) != 2 || s.HostIP != "192.0.2.1" ||
		s.ObservedGeneration != 2 || s.QOSClass != v1.PodQOSBestEffort {
		t.Errorf("got %+v, want Phase PodRunning, PodIP 10.0.0.9, 2 in PodIPs, HostIP 192.0.2.1, ObservedGeneration "+
			"2 and QOSClass PodQOSBestEffort", s)
	}
	if s.ContainerStatuses[0].Name != "a" || s.ContainerStatuses[0].ContainerID != "containerd://id-a" {
		t.Errorf("statuses stand by name: got %+v, want [0].Name a and [0].ContainerID containerd://id-a",
			s.ContainerStatuses)
	}
	for _, k := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.ContainersReady,
		v1.PodReady, v1.PodScheduled} {
		if c := condition(s, k); c.Status != v1.ConditionTrue || c.ObservedGeneration != 2 {
			t.Errorf("got %+v, want Status ConditionTrue and ObservedGeneration 2", c)
		}
	}
}

// The ids of containers name the runtime that they are of.
//
// row: CRI-01
func TestContainerIDsNameTheirRuntime(t *testing.T) {
	for _, name := range []string{"containerd", "cri-o"} {
		in := running(testPod("a"))
		in.Node.Runtime = name
		if got, want := podstatus.Generate(in).ContainerStatuses[0].ContainerID, name+"://id-a"; got != want {
			t.Errorf("container id: got %s, want %s", got, want)
		}
	}
}

// row: PST-14
func TestConditionsKeepTheirTime(t *testing.T) {
	in := running(testPod("a"))
	first := podstatus.Generate(in)
	in.Pod.Status, in.Now = first, now.Add(time.Hour)
	if diff := cmp.Diff(first, podstatus.Generate(in)); diff != "" {
		t.Errorf("a second look changed the status: %s", diff)
	}
	in.Health["a"] = podplan.Health{Started: true}
	if c := condition(podstatus.Generate(in), v1.PodReady); c.Status != v1.ConditionFalse ||
		!c.LastTransitionTime.Time.Equal(in.Now) {
		t.Errorf("got %+v, want Status ConditionFalse and Time %v", c, in.Now)
	}
	turned := in.Now // a condition that stays False keeps its time too, whatever else it says
	in.Pod.Status, in.Now = podstatus.Generate(in), turned.Add(time.Hour)
	in.Pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/g"}}
	in.Health["a"] = podplan.Health{Started: true, Ready: true}
	s := podstatus.Generate(in)
	if c := condition(s, v1.PodReady); c.Reason != "ReadinessGatesNotReady" ||
		!c.LastTransitionTime.Time.Equal(turned) {
		t.Errorf("Ready is False for another reason: got %+v, want the time %v", c, turned)
	}
	if c := condition(s, v1.ContainersReady); c.Status != v1.ConditionTrue || !c.LastTransitionTime.Time.Equal(in.Now) {
		t.Errorf("ContainersReady is True again: got %+v, want the time %v", c, in.Now)
	}
	in.Pod.Status, in.Now = s, in.Now.Add(time.Hour)
	in.Pod.Status.Conditions = append(in.Pod.Status.Conditions, v1.PodCondition{Type: "example.com/g",
		Status: v1.ConditionTrue})
	if c := condition(podstatus.Generate(in), v1.PodReady); c.Status != v1.ConditionTrue ||
		!c.LastTransitionTime.Time.Equal(in.Now) {
		t.Errorf("Ready is True later than ContainersReady: got %+v, want the time %v", c, in.Now)
	}
}

// row: PST-22
// row: PST-23
// row: PST-24
// row: PST-32
func TestReadinessGates(t *testing.T) {
	in := running(testPod("a"))
	in.Pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/g1"},
		{ConditionType: "example.com/g2"}}
	in.Pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/g2", Status: v1.ConditionFalse}}
	s := podstatus.Generate(in)
	c := condition(s, v1.PodReady)
	want := `corresponding condition of pod readiness gate "example.com/g1" does not exist., the status of pod ` +
		`readiness gate "example.com/g2" is not "True", but False`
	if c.Status != v1.ConditionFalse || c.Reason != "ReadinessGatesNotReady" || c.Message != want {
		t.Errorf("got %+v, want Status ConditionFalse, Reason ReadinessGatesNotReady and Message %v", c, want)
	}
	if c := condition(s, v1.ContainersReady); c.Status != v1.ConditionTrue {
		t.Errorf("got %+v, want Status ConditionTrue", c)
	}
	if c := condition(s, "example.com/g2"); c.Status != v1.ConditionFalse {
		t.Error("another owner's condition is lost")
	}
	in.Pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/g2", Status: v1.ConditionTrue}}
	if c := condition(podstatus.Generate(in), v1.PodReady); c.Status != v1.ConditionFalse {
		t.Errorf("one gate of two is True: got Ready %s, want False", c.Status)
	}
	in.Pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/g2", Status: v1.ConditionTrue},
		{Type: "example.com/g1", Status: v1.ConditionTrue}}
	if c := condition(podstatus.Generate(in), v1.PodReady); c.Status != v1.ConditionTrue {
		t.Errorf("both gates are True: got Ready %s %q, want True", c.Status, c.Message)
	}
	in.Health["a"] = podplan.Health{Started: true}
	if c := condition(podstatus.Generate(in), v1.PodReady); c.Status != v1.ConditionFalse ||
		c.Reason != "ContainersNotReady" {
		t.Errorf("both gates are True, a container is not ready: got Ready %s %s, want False", c.Status, c.Reason)
	}
	in.Health["a"] = podplan.Health{Started: true, Ready: true}
	in.Pod.Status.Conditions[0].Status = v1.ConditionUnknown
	if c := condition(podstatus.Generate(in), v1.PodReady); c.Status != v1.ConditionFalse ||
		c.Reason != "ReadinessGatesNotReady" {
		t.Errorf("a gate is Unknown: got Ready %s %s, want False", c.Status, c.Reason)
	}
	in.Pod.Spec.ReadinessGates = in.Pod.Spec.ReadinessGates[1:]
	in.Pod.Status.Conditions = nil
	if c := condition(podstatus.Generate(in), v1.PodReady); c.Status != v1.ConditionFalse ||
		c.Reason != "ReadinessGatesNotReady" {
		t.Errorf("the only gate is missing: got Ready %s %s, want False", c.Status, c.Reason)
	}
}

// What others write into the status stays as it is, whatever the kubelet makes of its own part.
//
// row: PST-32
func TestWhatOthersWriteStays(t *testing.T) {
	in := running(testPod("a"))
	at := metav1.NewTime(now.Add(-time.Hour))
	in.Pod.Status.NominatedNodeName = "elsewhere"
	in.Pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "r", ResourceClaimName: new("c")}}
	for _, status := range []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown} {
		in.Pod.Status.Conditions = append(in.Pod.Status.Conditions, v1.PodCondition{
			Type: v1.PodConditionType("example.com/" + status), Status: status, Reason: "TheySaySo", Message: "m",
			LastProbeTime: at, LastTransitionTime: at, ObservedGeneration: 1})
	}
	in.Pod.Status.Conditions = append(in.Pod.Status.Conditions, v1.PodCondition{Type: v1.DisruptionTarget,
		Status: v1.ConditionTrue, Reason: "PreemptionByScheduler", LastTransitionTime: at})
	others := slices.Clone(in.Pod.Status.Conditions)
	for name, change := range map[string]func(){
		"it runs":     func() {},
		"it ends":     func() { in.End = &podplan.Termination{Cause: "deleted", RequestedAt: now} },
		"it is over":  func() { in.Facts.ContainersStopped = now },
		"it is ready": func() { in.Health["a"] = podplan.Health{Started: true} },
	} {
		change()
		s := podstatus.Generate(in)
		if d := cmp.Diff(others, s.Conditions[:len(others)]); d != "" {
			t.Errorf("%s: the kubelet wrote others' conditions: got %s, want it empty", name, d)
		}
		if s.NominatedNodeName != "elsewhere" || len(s.ResourceClaimStatuses) != 1 ||
			*s.ResourceClaimStatuses[0].ResourceClaimName != "c" {
			t.Errorf("%s: got nominatedNodeName %q and claims %v, want those of the scheduler and the claim controller",
				name, s.NominatedNodeName, s.ResourceClaimStatuses)
		}
	}
}

// row: PST-02
// row: PST-17
// row: PST-19
func TestStatusBeforeContainersRun(t *testing.T) {
	in := running(testPod("a"))
	in.Observed = podplan.Observed{}
	in.Waiting = map[string]podstatus.WaitingReason{"a": {Reason: "ErrImagePull", Message: "no"}}
	s := podstatus.Generate(in)
	w := s.ContainerStatuses[0].State.Waiting
	if s.Phase != v1.PodPending || w == nil || w.Reason != "ErrImagePull" ||
		condition(s, v1.PodInitialized).Status != v1.ConditionTrue ||
		condition(s, v1.PodReadyToStartContainers).Status != v1.ConditionFalse {
		t.Errorf("got %+v, want Phase PodPending, Reason ErrImagePull, Status ConditionTrue and Status "+
			"ConditionFalse", s)
	}
	if got := s.ContainerStatuses[0]; got.Started == nil || *got.Started {
		t.Errorf("got %+v, want started to be false", got)
	}
}

// row: PST-29
// row: PST-31
func TestPhaseAfterContainersEnd(t *testing.T) {
	in := running(testPod("a"))
	in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
	in.Observed.Containers[0].State, in.Observed.Containers[0].Finished = podplan.Exited, now
	in.Observed.Containers[0].Exit = podplan.Exit{Code: 137, Reason: "OOMKilled"}
	in.End = &podplan.Termination{Cause: podplan.Finished}
	s := podstatus.Generate(in)
	if s.Phase != v1.PodPending && s.Phase != v1.PodRunning {
		t.Errorf("phase %s while the sandbox is there", s.Phase)
	}
	if c := condition(s, v1.PodReady); c.Reason != "PodFailed" {
		t.Errorf("got %+v, want Reason PodFailed", c)
	}
	in.Facts.ContainersStopped = now
	s = podstatus.Generate(in)
	e := s.ContainerStatuses[0].State.Terminated
	if s.Phase != v1.PodFailed || e == nil || e.ExitCode != 137 || e.Reason != "OOMKilled" || e.FinishedAt.IsZero() ||
		e.ContainerID != "containerd://id-a" {
		t.Errorf("got %+v, want Phase PodFailed, ExitCode 137, Reason OOMKilled, e.FinishedAt.IsZero() false and "+
			"ContainerID containerd://id-a", s)
	}
}

func TestEvicted(t *testing.T) {
	in := running(testPod("a"))
	in.Observed.Containers[0].State = podplan.Exited
	in.Observed.Sandboxes[0].Ready = false
	in.Facts.ContainersStopped = now
	in.End = &podplan.Termination{Cause: "evicted", Reason: "Evicted",
		Message: "The node was low on resource: memory. ", Victim: "The node was low on resource: memory. "}
	// As recorded of upstream: what was evicted and ended with 0 has Succeeded, and only the
	// condition says (volume-emptydir-over-limit, preempt-admission-critical).
	s := podstatus.Generate(in)
	if c := s.Conditions[len(s.Conditions)-1]; s.Phase != v1.PodSucceeded || s.Reason != "" ||
		c.Type != v1.DisruptionTarget || c.Message != in.End.Victim {
		t.Errorf("got %+v, want Phase PodSucceeded, Reason empty, Type DisruptionTarget and Message %v", s,
			in.End.Victim)
	}
	in.Observed.Containers[0].Exit.Code = 137
	if s := podstatus.Generate(in); s.Phase != v1.PodFailed || s.Reason != "Evicted" || s.Message != in.End.Message {
		t.Errorf("got %+v, want Phase PodFailed, Reason Evicted and Message %v", s, in.End.Message)
	}
}

// A container that was to run again, and will not because the node ends its Pod, is shown to wait
// and then, as upstream shows it, as one that could not be located; how it really ended is in its
// last state.
func TestEndedInBackOff(t *testing.T) {
	in := running(testPod("a"))
	in.Observed.Containers[0].State, in.Observed.Containers[0].Attempt, in.Observed.Containers[0].Exit = podplan.Exited,
		1, podplan.Exit{Code: 1, Reason: "Error"}
	in.End = &podplan.Termination{Cause: "deadline", Reason: podplan.DeadlineReason}
	in.BackOffs = map[string]podstatus.WaitingReason{"a": {Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
	for _, c := range []struct {
		stopped time.Time
		state   v1.ContainerState
	}{
		{time.Time{},
			v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}}},
		{now, v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 137,
			Reason:  "ContainerStatusUnknown",
			Message: "The container could not be located when the pod was terminated"}}},
	} {
		in.Facts.ContainersStopped = c.stopped
		s := podstatus.Generate(in).ContainerStatuses[0]
		if d := cmp.Diff(c.state, s.State); d != "" || s.LastTerminationState.Terminated == nil ||
			s.LastTerminationState.Terminated.ExitCode != 1 || s.RestartCount != 1 {
			t.Errorf("got %s, want d empty, ExitCode 1 and RestartCount 1\n%+v", d, s)
		}
	}
	in.BackOffs = nil // somebody deleted it
	if s := podstatus.Generate(in).ContainerStatuses[0]; s.State.Terminated == nil || s.State.Terminated.ExitCode != 1 {
		t.Errorf("got %+v, want ExitCode 1", s)
	}
}

// Containers that never came to run when their Pod is ended: what upstream's status manager makes
// of each combination.
//
// row: PST-29
func TestContainersThatNeverRanWhenTheirPodEnds(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	side := v1.Container{Name: "side", RestartPolicy: &always}
	one, two, app := v1.Container{Name: "one"}, v1.Container{Name: "two"}, v1.Container{Name: "app"}
	exited := func(name string, code int32) podplan.Container {
		return podplan.Container{ID: name, Name: name, Sandbox: "s", State: podplan.Exited, Started: now,
			Finished: now.Add(-time.Second), Exit: podplan.Exit{Code: code}}
	}
	late := func(c podplan.Container) podplan.Container {
		c.Finished = now.Add(time.Second)
		return c
	}
	isStarted := func(name string, started bool) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, Started: &started,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
	}
	for _, c := range []struct {
		name  string
		inits []v1.Container
		seen  []podplan.Container
		was   []v1.ContainerStatus // of init containers, before the end
		want  string
	}{
		{"nothing ran, no init containers", nil, nil, nil, "app:unknown"},
		{"the first init container's image is bad", []v1.Container{one, two}, nil, nil,
			"one:unknown two:waiting app:waiting"},
		{"the second init container's image is bad", []v1.Container{one, two}, []podplan.Container{exited("one", 0)},
			nil, "one:0 two:waiting app:waiting"},
		{"an init container failed", []v1.Container{one, two}, []podplan.Container{exited("one", 1)}, nil,
			"one:1 two:waiting app:waiting"},
		{"the app's image is bad, after init containers", []v1.Container{one, two},
			[]podplan.Container{exited("one", 0), exited("two", 0)}, nil, "one:0 two:0 app:unknown"},
		{"the last init container ended because its Pod did", []v1.Container{one},
			[]podplan.Container{late(exited("one", 0))}, nil, "one:0 app:waiting"},
		{"behind a sidecar whose image is bad", []v1.Container{side}, nil, nil, "side:unknown app:waiting"},
		{"behind a sidecar that never started", []v1.Container{side}, []podplan.Container{exited("side", 137)},
			[]v1.ContainerStatus{isStarted("side", false)}, "side:137 app:waiting"},
		{"behind a sidecar that started", []v1.Container{side}, []podplan.Container{exited("side", 0)},
			[]v1.ContainerStatus{isStarted("side", true)}, "side:0 app:unknown"},
		{"an init container after a sidecar never ran", []v1.Container{side, one},
			[]podplan.Container{exited("side", 0)}, []v1.ContainerStatus{isStarted("side", true)},
			"side:0 one:waiting app:waiting"},
		{"a later init container ran, the record of the first is lost", []v1.Container{one, two},
			[]podplan.Container{exited("two", 1)}, nil, "one:unknown two:1 app:waiting"},
	} {
		in := running(testPod())
		in.Pod.Spec.InitContainers, in.Pod.Spec.Containers = c.inits, []v1.Container{app}
		in.Pod.Status.InitContainerStatuses = c.was
		in.Observed.Containers, in.End = c.seen, &podplan.Termination{Cause: "deleted", RequestedAt: now}
		if s := podstatus.Generate(in); len(c.seen) == 0 && s.ContainerStatuses[0].State.Waiting == nil {
			t.Errorf("%s: before all is stopped %+v", c.name, s.ContainerStatuses[0].State)
		}
		in.Facts.ContainersStopped = now
		for range 2 { // the second time the API has the first one's answer
			s := podstatus.Generate(in)
			in.Pod.Status = s
			got := ""
			for _, st := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
				got += " " + st.Name + ":" + endOf(st)
			}
			if got[1:] != c.want || s.Phase != v1.PodFailed {
				t.Errorf("%s: %s, want %s (%s)", c.name, got[1:], c.want, s.Phase)
			}
		}
	}
}

func endOf(st v1.ContainerStatus) string {
	switch t := st.State.Terminated; {
	case t == nil:
		return "waiting"
	case t.Reason == podstatus.StatusUnknown:
		return "unknown"
	default:
		return strconv.Itoa(int(t.ExitCode))
	}
}

func TestRefusedPodStatus(t *testing.T) {
	in := podstatus.In{Pod: testPod("a"), Now: now, Refusal: &reason.Refusal{Code: "NodeAffinity",
		Detail: "Predicate NodeAffinity failed: x"}}
	s := podstatus.Generate(in)
	if s.Phase != v1.PodFailed || s.Reason != "NodeAffinity" ||
		s.Message != "Pod was rejected: Predicate NodeAffinity failed: x" ||
		len(s.Conditions)+len(s.ContainerStatuses) != 0 || s.StartTime == nil {
		t.Errorf("got %+v, want PodFailed, NodeAffinity, the message of the refusal, a start time and no container "+
			"or condition", s)
	}
	in.Pod.Status, in.Refusal, in.Facts = s, nil, podplan.Facts{Accepted: now, ContainersStopped: now}
	if diff := cmp.Diff(s, podstatus.Generate(in)); diff != "" {
		t.Errorf("a restarted kubelet changed it: got %s, want it empty", diff)
	}
}

// row: ISE-11
// row: PST-29
func TestRecordsOnlyTheAPIHas(t *testing.T) {
	status := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
		{Name: "ran", ContainerID: "containerd://1", RestartCount: 2,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
		{Name: "ended", ContainerID: "containerd://2",
			State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 4, Reason: "Error",
				Message: "m", StartedAt: metav1.NewTime(now), FinishedAt: metav1.NewTime(now.Add(time.Second))}}},
		{Name: "never", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}},
		{Name: "there", ContainerID: "containerd://4", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
	}}
	seen := podstatus.MergeKnown(
		podplan.Observed{Containers: []podplan.Container{{ID: "4", Name: "there", State: podplan.Running}}}, status)
	if c := seen.Latest("ran"); c == nil || c.Exit.Code != 137 || c.Exit.Reason != podstatus.StatusUnknown ||
		c.Attempt != 2 {
		t.Errorf("got %+v, want Code 137, Reason StatusUnknown and Attempt 2", c)
	}
	if c := seen.Latest("ended"); c == nil || c.Exit.Code != 4 || c.Exit.Message != "m" ||
		c.Exit.Reason != "Error" || !c.Started.Equal(now) || !c.Finished.Equal(now.Add(time.Second)) {
		t.Errorf("got %+v, want Code 4, Reason Error, Message m, and the times of its start and end", c)
	}
	if seen.Latest("never") != nil || seen.Latest("there").State != podplan.Running {
		t.Errorf("got %+v, want no Latest and State Running", seen)
	}
}

func TestResourcesOfThePodAreThoseOfItsCgroup(t *testing.T) {
	in := running(testPod("a"))
	list := func(names ...v1.ResourceName) v1.ResourceList {
		out := v1.ResourceList{}
		for _, n := range names {
			out[n] = resource.MustParse("1")
		}
		return out
	}
	all := list(v1.ResourceCPU, v1.ResourceMemory, "hugepages-2Mi", v1.ResourceEphemeralStorage, "example.com/widget")
	held := list(v1.ResourceCPU, v1.ResourceMemory, "hugepages-2Mi")
	in.Pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: all, Limits: all}
	s := podstatus.Generate(in)
	if diff := cmp.Diff(&v1.ResourceRequirements{Requests: all, Limits: all}, s.Resources); diff != "" {
		t.Error("until something has ended: " + diff)
	}
	in.End = &podplan.Termination{Cause: "deleted"}
	s = podstatus.Generate(in)
	if diff := cmp.Diff(&v1.ResourceRequirements{Requests: held, Limits: held}, s.Resources); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(all, s.AllocatedResources); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
	in.Pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list("example.com/widget")}
	if s := podstatus.Generate(in); s.Resources.Requests != nil || s.Resources.Limits != nil ||
		len(s.AllocatedResources) != 1 {
		t.Errorf("got %+v, want no Requests, no Limits and 1 in AllocatedResources", s)
	}
}

// row: CRI-17
func TestPodIPIsReportedWithFirstContainer(t *testing.T) {
	in := running(testPod("a"))
	in.RunningHooks = map[string]bool{"a": true}
	if s := podstatus.Generate(in); s.PodIP != "" ||
		condition(s, v1.PodReadyToStartContainers).Status != v1.ConditionTrue {
		t.Errorf("while its postStart hook runs: %+v", s)
	}
	in.RunningHooks = nil
	if s := podstatus.Generate(in); s.PodIP != "10.0.0.9" {
		t.Errorf("once it runs: got %q, want %q", s.PodIP, "10.0.0.9")
	}
	in.Observed.Containers, in.Waiting = nil, map[string]podstatus.WaitingReason{"a": {Reason: "ErrImagePull"}}
	if s := podstatus.Generate(in); s.PodIP != "10.0.0.9" {
		t.Errorf("when it cannot run: %q", s.PodIP)
	}
	in.Pod.Spec.HostNetwork, in.Waiting, in.Observed = true, nil, podplan.Observed{}
	if s := podstatus.Generate(in); s.PodIP != "192.0.2.1" {
		t.Errorf("on the host's network it is known from the start: got %q, want %q", s.PodIP, "192.0.2.1")
	}
}
