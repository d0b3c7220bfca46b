package schedule_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// defaultPlugins are the default profile's plugins that filter and score, made without a handle.
func defaultPlugins(t testing.TB) *schedule.PluginSet {
	t.Helper()
	pluginSet, err := plugins.DefaultPluginSet("default-scheduler", nil)
	if err != nil {
		t.Fatal(err)
	}
	return pluginSet
}

func node(name, cpu, memory string, change ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory),
			v1.ResourcePods: resource.MustParse("110"),
		}},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

func zone(name string) func(*v1.Node) {
	return func(n *v1.Node) { n.Labels[v1.LabelTopologyZone] = name }
}

func pod(name, cpu, memory string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec:       v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
	requests := v1.ResourceList{}
	if cpu != "" {
		requests[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		requests[v1.ResourceMemory] = resource.MustParse(memory)
	}
	p.Spec.Containers[0].Resources.Requests = requests
	for _, f := range change {
		f(p)
	}
	return p
}

func quantity(n int) *resource.Quantity { return resource.NewQuantity(int64(n), resource.DecimalSI) }

func limit(pods int) func(*v1.Node) {
	return func(n *v1.Node) { n.Status.Allocatable[v1.ResourcePods] = *quantity(pods) }
}
