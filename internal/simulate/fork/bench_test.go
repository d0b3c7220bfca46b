package fork_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/fork"
	"github.com/gantry-project/gantry/test/wrappers"
)

// running is a Pod that runs on a node.
func running(i, nodes int) *corev1.Pod {
	name := fmt.Sprint("pod-", i)
	p := wrappers.MakePod().Namespace("default").Name(name).UID(name).Obj()
	p.Spec = deployment("x", 1, "10m").Spec.Template.Spec
	at := metav1.NewTime(start)
	p.Spec.NodeName = fmt.Sprint("node-", i%nodes)
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, StartTime: &at,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Ready: true, Started: new(true),
			ContainerID: "x://" + name,
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}}}}
	return p
}

// BenchmarkFork copies a cluster of 100 nodes and 1,000 Pods and lets it come to rest.
func BenchmarkFork(b *testing.B) {
	for b.Loop() {
		var objects []runtime.Object
		for i := range 100 {
			objects = append(objects, node(fmt.Sprint("node-", i), "16"))
		}
		for i := range 1000 {
			objects = append(objects, running(i, 100))
		}
		c, err := fork.New(b.Context(), fork.Options{Objects: objects, Start: start,
			Model: behavior.Model{Default: behavior.Assumed()}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Run(b.Context(), start, func() bool { return true }); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}
