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

// standing makes a Pod of this priority that asks for so much CPU; with limit as much as the request if guaranteed.
func standing(name, cpu string, priority int32, guaranteed bool) *v1.Pod {
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

// Critical Pods make room for themselves with as little harm as possible; texts are upstream's.
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
		{"room enough", standing("new", "1", critical, false), []*v1.Pod{standing("a", "900m", 0, false)}, "", "", ""},
		{"no critical Pod, no room", standing("new", "600m", 0, false), []*v1.Pod{standing("a", "1500m", 0, false)}, "", "OutOfcpu",
			"Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"},
		{"one of two equals", standing("new", "600m", critical, false), []*v1.Pod{standing("b", "900m", 0, false), standing("a", "900m", 0, false)}, "a", "", ""},
		{"the younger of two equals", standing("new", "600m", critical, false), []*v1.Pod{standing("a", "900m", 0, false), younger(standing("b", "900m", 0, false))}, "b", "", ""},
		{"the smallest that suffices", standing("new", "600m", critical, false), []*v1.Pod{standing("a", "1100m", 0, false), standing("b", "500m", 0, false)}, "b", "", ""},
		{"burstable before guaranteed", standing("new", "600m", critical, false), []*v1.Pod{standing("a", "1", 0, true), standing("b", "1", 0, false)}, "b", "", ""},
		{"critical Pods stay", standing("new", "600m", critical, false), []*v1.Pod{standing("a", "1500m", critical, false), standing("b", "400m", 0, false)}, "", "UnexpectedAdmissionError",
			"Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 100), ]"},
		{"unless of lower priority", standing("new", "600m", critical, false), []*v1.Pod{standing("a", "1500m", critical-1, false)}, "a", "", ""},
	} {
		victims, no := admit.MakeRoom(admit.In{Pod: c.pod, Node: big, Others: c.others})
		names := ""
		for _, v := range victims {
			names += v.Name
		}
		if names != c.victims {
			t.Errorf("%s: victims %q, want %q", c.name, names, c.victims)
		}
		switch {
		case no == nil && c.code != "", no != nil && (string(no.Code) != c.code || no.Detail != c.message):
			t.Errorf("%s: %v, want %s %s", c.name, no, c.code, c.message)
		}
	}
}

// Resizes are judged in upstream's order: those that ask for no more, priority, class, waiting time.
func TestOrderOfResizes(t *testing.T) {
	wish := func(name, from, to string, priority int32, guaranteed bool) admit.Resize {
		return admit.Resize{Pod: standing(name, to, priority, guaranteed), Allocated: standing(name, from, priority, guaranteed)}
	}
	list := []admit.Resize{
		wish("low", "1", "2", 0, false), wish("sure", "1", "2", 5, true), wish("high", "1", "2", 5, false), wish("less", "2", "1", 0, false),
	}
	admit.Order(list)
	got := ""
	for _, r := range list {
		got += r.Pod.Name + " "
	}
	if got != "less sure high low " {
		t.Error(got)
	}
}

func TestMayResize(t *testing.T) {
	have := standing("p", "500m", 0, true)
	want := func(cpu string) *v1.Pod { return standing("p", cpu, 0, true) }
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
		{"more than the node has", want("3"), nil, admit.Policies{}, "Deferred", "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000"},
		{"later", want("1"), []*v1.Pod{standing("o", "1500m", 0, false)}, admit.Policies{}, "Deferred", "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"},
		{"static", static, nil, admit.Policies{}, "Infeasible", "In-place resize of static-pods is not supported"},
		{"exclusive CPUs", want("1"), nil, admit.Policies{CPU: "static"}, "Infeasible", "Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\""},
		{"exclusive memory", memory, nil, admit.Policies{Memory: "Static"}, "Infeasible", "Resize is infeasible for Guaranteed Pods alongside Memory Manager policy \"Static\""},
		{"swap", memory, nil, admit.Policies{Swap: true}, "Infeasible", "In-place resize of containers with swap is not supported."},
	} {
		no := admit.MayResize(admit.Resize{Pod: c.pod, Allocated: have}, node(), c.others, c.policies)
		switch {
		case no == nil && c.code != "", no != nil && (string(no.Code) != c.code || no.Detail != c.message):
			t.Errorf("%s: %v, want %s %s", c.name, no, c.code, c.message)
		}
	}
}
