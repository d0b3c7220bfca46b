package admit_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/admit"
)

// runningPod makes a Pod of this priority that asks for so much CPU; with limit as much as the
// request if guaranteed.
func runningPod(name, cpu string, priority int32, guaranteed bool) *v1.Pod {
	p := pod(func(p *v1.Pod) {
		p.Name, p.UID, p.Spec.Priority = name, types.UID(name), &priority
		r := v1.ResourceList{"memory": resource.MustParse("1Mi")}
		if cpu != "" {
			r["cpu"] = resource.MustParse(cpu)
		}
		p.Spec.Containers[0].Resources.Requests = r
		if guaranteed {
			p.Spec.Containers[0].Resources.Limits = r
		}
	})
	return p
}

const critical = 2000001000

// younger is a Pod created after those without a time.
func younger(p *v1.Pod) *v1.Pod {
	p.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	return p
}

// Critical Pods preempt as little as possible; texts are upstream's.
func TestMakeRoom(t *testing.T) {
	big := node()
	big.Status.Allocatable["pods"] = resource.MustParse("10")
	for _, c := range []struct {
		name    string
		pod     *v1.Pod
		others  []*v1.Pod
		victims string
		code    string
		message string
	}{
		{"room enough", runningPod("new", "1", critical, false), []*v1.Pod{runningPod("a", "900m", 0, false)}, "", "",
			""},
		{"no critical Pod, no room", runningPod("new", "600m", 0, false), []*v1.Pod{runningPod("a", "1500m", 0, false)},
			"", "OutOfcpu",
			"Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"},
		{"one of two equals", runningPod("new", "600m", critical, false),
			[]*v1.Pod{runningPod("b", "900m", 0, false), runningPod("a", "900m", 0, false)}, "a", "", ""},
		{"the younger of two equals", runningPod("new", "600m", critical, false),
			[]*v1.Pod{runningPod("a", "900m", 0, false), younger(runningPod("b", "900m", 0, false))}, "b", "", ""},
		{"the smallest that suffices", runningPod("new", "600m", critical, false),
			[]*v1.Pod{runningPod("a", "1100m", 0, false), runningPod("b", "500m", 0, false)}, "b", "", ""},
		{"burstable before guaranteed", runningPod("new", "600m", critical, false),
			[]*v1.Pod{runningPod("a", "1", 0, true), runningPod("b", "1", 0, false)}, "b", "", ""},
		{"critical Pods stay", runningPod("new", "600m", critical, false),
			[]*v1.Pod{runningPod("a", "1500m", critical, false), runningPod("b", "400m", 0, false)}, "",
			"UnexpectedAdmissionError",
			"Unexpected error while attempting to recover from admission failure: preemption: error finding a set of " +
				"pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 100), ]"},
		{"unless of lower priority", runningPod("new", "600m", critical, false),
			[]*v1.Pod{runningPod("a", "1500m", critical-1, false)}, "a", "", ""},
	} {
		victims, refusal := admit.PodsToPreempt(admit.In{Pod: c.pod, Node: big, OtherPods: c.others})
		names := ""
		for _, v := range victims {
			names += v.Name
		}
		if names != c.victims {
			t.Errorf("%s: victims %q, want %q", c.name, names, c.victims)
		}
		switch {
		case refusal == nil && c.code != "",
			refusal != nil && (string(refusal.Code) != c.code || refusal.Detail != c.message):
			t.Errorf("%s: %v, want %s %s", c.name, refusal, c.code, c.message)
		}
	}
}

// Resizes are evaluated in upstream's order: those that ask for no more, priority, class, waiting
// time.
func TestOrderOfResizes(t *testing.T) {
	resize := func(name, from, to string, priority int32, guaranteed bool) admit.Resize {
		return admit.Resize{Pod: runningPod(name, to, priority, guaranteed),
			Allocated: runningPod(name, from, priority, guaranteed)}
	}
	list := []admit.Resize{
		resize("low", "1", "2", 0, false), resize("sure", "1", "2", 5, true), resize("high", "1", "2", 5, false),
		resize("less", "2", "1", 0, false),
	}
	admit.SortResizes(list)
	got := ""
	for _, r := range list {
		got += r.Pod.Name + " "
	}
	if got != "less sure high low " {
		t.Errorf(`got %q, want "less sure high low "`, got)
	}
}

func TestMayResize(t *testing.T) {
	have := runningPod("p", "500m", 0, true)
	want := func(cpu string) *v1.Pod { return runningPod("p", cpu, 0, true) }
	static := want("1")
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	memory := want("500m")
	memory.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("2Mi")
	for _, c := range []struct {
		name     string
		pod      *v1.Pod
		others   []*v1.Pod
		policies admit.Policies
		code     string
		message  string
	}{
		{"granted", want("1"), nil, admit.Policies{}, "", ""},
		{"more than the node has", want("3"), nil, admit.Policies{}, "Deferred",
			"Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000"},
		{"later", want("1"), []*v1.Pod{runningPod("o", "1500m", 0, false)}, admit.Policies{}, "Deferred",
			"Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"},
		{"static", static, nil, admit.Policies{}, "Infeasible", "In-place resize of static-pods is not supported"},
		{"exclusive CPUs", want("1"), nil, admit.Policies{CPU: "static"}, "Infeasible",
			"Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\""},
		{"exclusive memory", memory, nil, admit.Policies{Memory: "Static"}, "Infeasible",
			"Resize is infeasible for Guaranteed Pods alongside Memory Manager policy \"Static\""},
		{"swap", memory, nil, admit.Policies{Swap: true}, "Infeasible",
			"In-place resize of containers with swap is not supported."},
	} {
		refusal := admit.CanResize(admit.Resize{Pod: c.pod, Allocated: have}, node(), c.others, c.policies)
		switch {
		case refusal == nil && c.code != "",
			refusal != nil && (string(refusal.Code) != c.code || refusal.Detail != c.message):
			t.Errorf("%s: %v, want %s %s", c.name, refusal, c.code, c.message)
		}
	}
}
