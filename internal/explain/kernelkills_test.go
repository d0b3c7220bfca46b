package explain

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/wrappers"
)

const killMetrics = `# HELP container_oom_events_total Count of out of memory events observed for the container
# TYPE container_oom_events_total counter
container_oom_events_total{container="app",id="/a",name="1",namespace="shop",pod="web"} 2 1700000000000
container_oom_events_total{container="side",id="/b",name="2",namespace="shop",pod="web"} 0
container_oom_events_total{container="",id="/",name="",namespace="shop",pod="web"} 9
container_oom_events_total{container="app",id="/c",name="3",namespace="shop",pod="web-2"} 5
container_oom_events_total{container="app",id="/d",name="4",namespace="other",pod="web"} 7
container_processes{container="app",id="/a",name="1",namespace="shop",pod="web"} 3
`

// The kubelet's metrics tell how many processes of a Pod's containers were killed: of this Pod, of
// containers, and only where there are some.
func TestKillsAreReadFromTheKubeletsMetrics(t *testing.T) {
	got, want := KillsOf(killMetrics, "shop", "web"), map[string]uint64{"app": 2}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func limitedPod() *corev1.Pod {
	p := wrappers.MakePod().Namespace("shop").Name("web").Obj()
	p.Spec.NodeName = "node-1"
	p.Spec.Containers = []corev1.Container{{Name: "app", Command: []string{"sh", "-c", "work"}}}
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("64Mi")}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

// A process that the kernel killed in a container that runs on is told, with the limit and a
// larger one; of the Pod it is not said that nothing blocks it.
func TestAKilledProcessOfARunningContainerIsReported(t *testing.T) {
	in := In{Ref: journal.Ref{Namespace: "shop", Name: "web"}, Pod: limitedPod(), Kills: map[string]uint64{"app": 2}}
	a := Why(in)
	i := slices.IndexFunc(a.Findings, func(f finding.Finding) bool { return f.Code == "ProcessOutOfMemory" })
	if i < 0 {
		t.Fatalf("got findings %v, want ProcessOutOfMemory", a.Findings)
	}
	f := a.Findings[i]
	if f.Code != "ProcessOutOfMemory" || f.Field != "spec.containers[0].resources.limits.memory" || f.Value != "64Mi" ||
		f.Numbers["kills"] != "2" || f.Severity != finding.Threat {
		t.Errorf("got %+v, want ProcessOutOfMemory of the limit 64Mi with 2 kills, a threat", f)
	}
	if len(f.Remedies) == 0 || !strings.Contains(strings.Join(f.Remedies[0].Run, " "), "256Mi") {
		t.Errorf("got remedies %v, want the limit raised to 256Mi", f.Remedies)
	}
	var text strings.Builder
	if err := a.WriteText(&text, in.Now); err != nil {
		t.Fatal(err)
	}
	if s := text.String(); strings.Contains(s, "nothing blocks it") || !strings.Contains(s, "killed 2 processes") {
		t.Errorf("got %q, want 2 killed processes, and not that nothing blocks it", s)
	}
	if in.Kills = nil; strings.Contains(Why(in).Cause, "killed") {
		t.Errorf("got %q of a Pod without killed processes, want nothing about them", Why(in).Cause)
	}
}

// The kubelet is asked where the kernel may have killed: of a Pod that runs with a limit.
func TestOfWhichPodsKillsAreRead(t *testing.T) {
	unlimited, waiting, of := limitedPod(), limitedPod(), limitedPod()
	unlimited.Spec.Containers[0].Resources.Limits = nil
	waiting.Status.ContainerStatuses[0].State = corev1.ContainerState{}
	of.Spec.Containers[0].Resources.Limits = nil
	of.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("64Mi")}}
	for name, x := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{"limited": {limitedPod(), true}, "unlimited": {unlimited, false}, "waiting": {waiting, false},
		"limited as a whole": {of, true}} {
		if got := MayLoseProcesses(x.pod); got != x.want {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}
