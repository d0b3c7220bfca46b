package blocks

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/test/wrappers"
)

var created = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func with(change func(*corev1.Pod)) *corev1.Pod {
	p := wrappers.MakePod().Namespace("default").Name("web").UID("1").
		CreationTimestamp(metav1.NewTime(created)).Obj()
	p.Spec.NodeName, p.Spec.SchedulerName = "n1", "default-scheduler"
	p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("1500m"),
			corev1.ResourceMemory: resource.MustParse("1Gi"),
		}}}}
	p.Status.Phase = corev1.PodRunning
	change(p)
	return p
}

func readyIs(status corev1.ConditionStatus, reason, message string) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodReady, Status: status, Reason: reason, Message: message}}
}

func TestStatesOfPods(t *testing.T) {
	container := func(s corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "app", State: s, RestartCount: 2}}
	}
	waiting := func(reason, message string) []corev1.ContainerStatus {
		return container(corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
	}
	for _, v := range []struct {
		name   string
		change func(*corev1.Pod)
		state  State
		waits  string
	}{
		{"ready", func(p *corev1.Pod) { p.Status.Conditions = readyIs(corev1.ConditionTrue, "", "") }, Ready, ""},
		{"not ready", func(p *corev1.Pod) {
			p.Status.Conditions = readyIs(corev1.ConditionFalse, "ContainersNotReady", "containers with unready "+
				"status: [app]")
		}, NotReady, "containers with unready status: [app]"},
		{"running, no status", func(*corev1.Pod) {}, NotReady, "its first status"},
		{"no node", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending }, Unscheduled,
			"the scheduler default-scheduler"},
		{"no node fits", func(p *corev1.Pod) {
			p.Spec.NodeName = ""
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Message: "0/1 nodes are available"}}
		}, Unscheduled, "0/1 nodes are available"},
		{"gated", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: "a"}, {Name: "b"}}
		}, Unscheduled, "scheduling gates a, b"},
		{"sandbox", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, Starting, "node n1: sandbox, " +
			"network and volumes"},
		{"creating", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers,
				Status: corev1.ConditionTrue}}
			p.Status.ContainerStatuses = waiting("ContainerCreating", "")
		}, Starting, "node n1: images and containers"},
		{"init", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare", Started: new(true),
				State: corev1.ContainerState{
					Running: &corev1.ContainerStateRunning{}}}}
		}, Starting, "init container prepare runs"},
		{"image", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = waiting("ErrImagePull", "no such host")
		}, Failing, "container app: ErrImagePull: no such host"},
		{"crashing", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = waiting("CrashLoopBackOff", "")
		}, Failing, "container app: CrashLoopBackOff"},
		{"crashed", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = container(corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}})
		}, Failing, "container app: it exited with 3 (Error)"},
		{"ending", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: created}, new(int64(30))
			p.Status.Conditions = readyIs(corev1.ConditionTrue, "", "")
		}, Ending, "its containers stop, 30 s at most"},
		{"finalizers", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: created}, []string{"a/b"}
		}, Ending, "finalizers a/b"},
		{"node silent", func(p *corev1.Pod) {
			p.Status.Conditions = readyIs(corev1.ConditionUnknown,
				"NodeStatusUnknown", "")
		}, Unknown, "a word of node n1"},
		{"succeeded", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, Succeeded, ""},
		{"evicted", func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "low on memory"
		}, Failed, "Evicted: low on memory"},
	} {
		got := OfPod(with(v.change))
		if got.State != v.state || got.WaitsFor != v.waits {
			t.Errorf("%s: got %s, waits for %q; want %s, %q", v.name, got.State, got.WaitsFor, v.state, v.waits)
		}
	}
}

func TestBlockOfAPod(t *testing.T) {
	p := with(func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: new(true)}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2}, {RestartCount: 1}}
	})
	if got := OfPod(p); got.CPU != 1500 || got.Memory != 1<<30 || got.Restarts != 3 ||
		got.Owner != "replicaset/web-1" ||
		!got.Since.Equal(created) {
		t.Errorf("got %+v", got)
	}
}

func TestRowOfANode(t *testing.T) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelTopologyZone: "a"}},
	}
	n.Spec.Unschedulable = true
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU:  resource.MustParse("2"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue, Message: "little is left"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}}
	got := OfNode(n)
	if got.CPU != 2000 || got.Pods != 110 || !got.Ready || !got.Cordoned || got.Zone != "a" ||
		strings.Join(got.Troubles, ";") != "MemoryPressure is True: little is left" {
		t.Errorf("got %+v", got)
	}
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	if got := OfNode(n); got.Ready || len(got.Troubles) != 2 {
		t.Errorf("a silent node is %+v", got)
	}
}
