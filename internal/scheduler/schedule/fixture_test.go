package schedule_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/test/wrappers"
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
	return wrappers.MakeNode().Hostname(name).Allocatable(map[v1.ResourceName]string{v1.ResourceCPU: cpu,
		v1.ResourceMemory: memory, v1.ResourcePods: "110"}).Obj(change...)
}

func zone(name string) func(*v1.Node) {
	return func(n *v1.Node) { n.Labels[v1.LabelTopologyZone] = name }
}

func pod(name, cpu, memory string, change ...func(*v1.Pod)) *v1.Pod {
	requests := map[v1.ResourceName]string{}
	if cpu != "" {
		requests[v1.ResourceCPU] = cpu
	}
	if memory != "" {
		requests[v1.ResourceMemory] = memory
	}
	return wrappers.MakePod().Namespace("default").Name(name).UID(name).SchedulerName("default-scheduler").
		Container("c", "i").Req(requests).Obj(change...)
}

func quantity(n int) *resource.Quantity { return resource.NewQuantity(int64(n), resource.DecimalSI) }

func limit(pods int) func(*v1.Node) {
	return func(n *v1.Node) { n.Status.Allocatable[v1.ResourcePods] = *quantity(pods) }
}
