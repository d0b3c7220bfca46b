package pods

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func waitingState(reason string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
}

func terminatedState(code int32, reason string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
}

func running() v1.ContainerState {
	return v1.ContainerState{Running: &v1.ContainerStateRunning{}}
}

// TestTableRow holds READY, STATUS and RESTARTS as upstream prints them.
//
// row: OPS-01
// row: ISE-16
// row: PST-06
// row: PST-07
// row: PST-11
func TestTableRow(t *testing.T) {
	inits := func(p *v1.Pod, states ...v1.ContainerStatus) {
		for i := range states {
			states[i].Name = fmt.Sprint("i", i)
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: states[i].Name, Image: "x"})
		}
		p.Status.InitContainerStatuses = states
	}
	app := func(p *v1.Pod, s v1.ContainerStatus) {
		s.Name = "c"
		p.Status.Phase, p.Status.ContainerStatuses = v1.PodRunning, []v1.ContainerStatus{s}
	}
	two := func(p *v1.Pod, first, second v1.ContainerStatus) {
		first.Name, second.Name = "c", "d"
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "d", Image: "x"})
		p.Status.Phase, p.Status.ContainerStatuses = v1.PodRunning, []v1.ContainerStatus{first, second}
	}
	endAt := func(s int64) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: timeAt(s)}}
	}
	for _, c := range []struct {
		name string
		edit func(*v1.Pod)
		want string
	}{
		{"new", func(*v1.Pod) {}, "0/1 Pending 0"},
		{"gated", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} },
			"0/1 SchedulingGated 0"},
		{"creating", func(p *v1.Pod) {
			app(p, v1.ContainerStatus{State: waitingState("ContainerCreating")})
			p.Status.Phase = v1.PodPending
		}, "0/1 ContainerCreating 0"},
		{"running", func(p *v1.Pod) { app(p, v1.ContainerStatus{State: running(), Ready: true}) }, "1/1 Running 0"},
		{"restarted 5 s ago", func(p *v1.Pod) {
			app(p, v1.ContainerStatus{State: running(), Ready: true, RestartCount: 1,
				LastTerminationState: v1.ContainerState{
					Terminated: &v1.ContainerStateTerminated{FinishedAt: timeAt(95)}}})
		}, "1/1 Running 1 (5s ago)"},
		{"crash loop",
			func(p *v1.Pod) { app(p, v1.ContainerStatus{State: waitingState("CrashLoopBackOff"), RestartCount: 5}) },
			"0/1 CrashLoopBackOff 5"},
		{"pull back-off", func(p *v1.Pod) {
			app(p, v1.ContainerStatus{State: waitingState("ImagePullBackOff")})
			p.Status.Phase = v1.PodPending
		}, "0/1 ImagePullBackOff 0"},
		{"failed", func(p *v1.Pod) {
			app(p, v1.ContainerStatus{State: terminatedState(1, "Error")})
			p.Status.Phase = v1.PodFailed
		}, "0/1 Error 0"},
		{"init containers are over", func(p *v1.Pod) {
			inits(p, v1.ContainerStatus{State: terminatedState(0, "Completed"), Ready: true})
			app(p, v1.ContainerStatus{State: waitingState("PodInitializing")})
			p.Status.Phase = v1.PodPending
		}, "0/1 PodInitializing 0"},
		{"completed", func(p *v1.Pod) {
			app(p, v1.ContainerStatus{State: terminatedState(0, "Completed")})
			p.Status.Phase = v1.PodSucceeded
		}, "0/1 Completed 0"},
		{"exit code without a reason", func(p *v1.Pod) { app(p, v1.ContainerStatus{State: terminatedState(3, "")}) },
			"0/1 ExitCode:3 0"},
		{"one of two completed", func(p *v1.Pod) {
			app(p, v1.ContainerStatus{State: running(), Ready: true})
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "d", Image: "x"})
			p.Status.ContainerStatuses = append([]v1.ContainerStatus{{Name: "d",
				State: terminatedState(0, "Completed")}},
				p.Status.ContainerStatuses...)
		}, "1/2 NotReady 0"},
		{"first of two init containers", func(p *v1.Pod) {
			inits(p, v1.ContainerStatus{State: running()}, v1.ContainerStatus{State: waitingState("PodInitializing")})
		}, "0/1 Init:0/2 0"},
		{"init containers have not begun", func(p *v1.Pod) {
			inits(p, v1.ContainerStatus{State: waitingState("PodInitializing")},
				v1.ContainerStatus{State: waitingState("PodInitializing")})
		}, "0/1 Init:0/2 0"},
		{"second of two init containers", func(p *v1.Pod) {
			inits(p, v1.ContainerStatus{State: terminatedState(0, "Completed")}, v1.ContainerStatus{State: running()})
		}, "0/1 Init:1/2 0"},
		{"init container crashes", func(p *v1.Pod) {
			inits(p, v1.ContainerStatus{State: waitingState("CrashLoopBackOff"), RestartCount: 2})
		}, "0/1 Init:CrashLoopBackOff 2"},
		{"init container failed", func(p *v1.Pod) { inits(p, v1.ContainerStatus{State: terminatedState(3, "")}) },
			"0/1 Init:ExitCode:3 0"},
		{"sidecar", func(p *v1.Pod) {
			inits(p, v1.ContainerStatus{State: running(), Started: new(true), Ready: true, RestartCount: 1})
			p.Spec.InitContainers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			app(p, v1.ContainerStatus{State: running(), Ready: true})
		}, "2/2 Running 1"},
		{"sidecar that is not ready", func(p *v1.Pod) {
			inits(p, v1.ContainerStatus{State: running(), Started: new(true)})
			p.Spec.InitContainers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			app(p, v1.ContainerStatus{State: running(), Ready: true})
		}, "1/2 Running 0"},
		{"the later of two restarts", func(p *v1.Pod) {
			two(p, v1.ContainerStatus{State: running(), Ready: true, RestartCount: 1, LastTerminationState: endAt(80)},
				v1.ContainerStatus{State: running(), Ready: true, RestartCount: 2, LastTerminationState: endAt(95)})
		}, "2/2 Running 3 (5s ago)"},
		{"a failure before a success", func(p *v1.Pod) {
			two(p, v1.ContainerStatus{State: terminatedState(0, "Completed")},
				v1.ContainerStatus{State: terminatedState(1, "Error")})
		}, "0/2 Error 0"},
		{"one of two completed, and the Pod is ready", func(p *v1.Pod) {
			two(p, v1.ContainerStatus{State: terminatedState(0, "Completed")},
				v1.ContainerStatus{State: running(), Ready: true})
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		}, "1/2 Running 0"},
		{"init container ended by a signal", func(p *v1.Pod) {
			s := terminatedState(137, "")
			s.Terminated.Signal = 9
			inits(p, v1.ContainerStatus{State: s})
		}, "0/1 Init:Signal:9 0"},
		{"init containers are behind it", func(p *v1.Pod) {
			inits(p, v1.ContainerStatus{State: terminatedState(0, "Completed")},
				v1.ContainerStatus{State: terminatedState(0, "Completed")})
			app(p, v1.ContainerStatus{State: waitingState("PodInitializing")})
			p.Status.Phase = v1.PodPending
		}, "0/1 PodInitializing 0"},
		{"unknown", func(p *v1.Pod) { p.Status.Phase = v1.PodUnknown }, "0/1 Unknown 0"},
		{"evicted", func(p *v1.Pod) { p.Status.Phase, p.Status.Reason = v1.PodFailed, "Evicted" }, "0/1 Evicted 0"},
		{"deleting", func(p *v1.Pod) {
			app(p, v1.ContainerStatus{State: running(), Ready: true})
			p.DeletionTimestamp = &metav1.Time{}
		}, "1/1 Terminating 0"},
		{"deleting, and has succeeded", func(p *v1.Pod) {
			app(p, v1.ContainerStatus{State: terminatedState(0, "Completed")})
			p.Status.Phase, p.DeletionTimestamp = v1.PodSucceeded, &metav1.Time{}
		}, "0/1 Completed 0"},
		{"deleting, and has failed", func(p *v1.Pod) {
			app(p, v1.ContainerStatus{State: terminatedState(1, "Error")})
			p.Status.Phase, p.DeletionTimestamp = v1.PodFailed, &metav1.Time{}
		}, "0/1 Error 0"},
		{"deleting on a node that is lost", func(p *v1.Pod) {
			app(p, v1.ContainerStatus{State: running(), Ready: true})
			p.Status.Reason, p.DeletionTimestamp = "NodeLost", &metav1.Time{}
		}, "1/1 Unknown 0"},
		{"deleting in its init containers", func(p *v1.Pod) {
			inits(p, v1.ContainerStatus{State: running()})
			p.DeletionTimestamp = &metav1.Time{}
		}, "0/1 Terminating 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Row(podOf(c.edit), timeAt(100))
			if got := fmt.Sprint(r[1], " ", r[2], " ", r[3]); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	if r := Row(podOf(), timeAt(100)); fmt.Sprint(r[4:]) != "[<unknown> <none> <none> <none> <none>]" {
		t.Errorf(`got %v, want r[4:] "[<unknown> <none> <none> <none> <none>]"`, r)
	}
	if c := RowConditions(podOf(func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })); len(c) != 1 ||
		c[0].Message != "The pod failed." {
		t.Errorf(`got %v, want 1 in c and Message "The pod failed."`, c)
	}
}

// The columns are READY, STATUS, RESTARTS and AGE, which is the time since the Pod was made, and
// for those who ask for more the address, the node, the nominated node and the readiness gates.
//
// row: OPS-01
func TestTableColumns(t *testing.T) {
	var short, wide []string
	for _, c := range table().Columns {
		if c.Priority == 0 {
			short = append(short, c.Name)
		} else {
			wide = append(wide, c.Name)
		}
	}
	if got := strings.Join(short, ","); got != "Name,Ready,Status,Restarts,Age" {
		t.Errorf("got the columns %s, want Name,Ready,Status,Restarts,Age", got)
	}
	if got := strings.Join(wide, ","); got != "IP,Node,Nominated Node,Readiness Gates" {
		t.Errorf("got the wide columns %s, want IP,Node,Nominated Node,Readiness Gates", got)
	}
	made := podOf(func(p *v1.Pod) {
		p.Name, p.CreationTimestamp = "web", timeAt(100)
		p.Spec.NodeName, p.Status.PodIP, p.Status.NominatedNodeName = "n1", "10.0.0.9", "n2"
		p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "x/a"}, {ConditionType: "x/b"}}
		p.Status.Conditions = []v1.PodCondition{{Type: "x/b", Status: v1.ConditionTrue}}
	})
	for after, age := range map[int64]string{0: "0s", 5: "5s", 119: "119s", 3 * 60: "3m", 5 * 3600: "5h",
		49 * 3600: "2d1h", 30 * 24 * 3600: "30d"} {
		got := fmt.Sprint(Row(made, timeAt(100+after)))
		if want := "[web 0/1 Pending 0 " + age + " 10.0.0.9 n1 n2 1/2]"; got != want {
			t.Errorf("%d s after it was made: got %s, want %s", after, got, want)
		}
	}
}
