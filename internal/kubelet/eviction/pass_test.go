package eviction_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/test/expect"
)

// fullNode is a node of 110 Pods with three containers and a volume each, which is short of
// memory.
func fullNode(t testing.TB) eviction.In {
	t.Helper()
	list, errs := eviction.Thresholds(eviction.Settings{Hard: map[string]string{"memory.available": "100Mi",
		"nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "pid.available": "5%"},
		Soft:            map[string]string{"memory.available": "500Mi"},
		SoftGracePeriod: map[string]string{"memory.available": "90s"}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	now := time.Unix(1000, 0)
	in := eviction.In{Config: eviction.Config{Thresholds: list, PressureTransition: time.Minute}, Now: now,
		Use: map[types.UID]eviction.PodUse{}, Observations: eviction.Observations{}}
	for _, threshold := range list {
		in.Observations[threshold.Signal] = eviction.Observation{At: now, Available: 50 * mi, Capacity: 8192 * mi}
	}
	for i := range 110 {
		p := named(fmt.Sprint("pod-", i))
		priority := int32(i % 7)
		p.Spec.Priority, p.Spec.Containers = &priority, nil
		use := eviction.PodUse{Volumes: map[string]eviction.Space{"v": {Bytes: int64(i)}}}
		memory := int64(i) * mi
		use.Memory = &memory
		for j := range 3 {
			name := fmt.Sprint("c", j)
			share := memory / 3
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name, Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(int64(i%40)*mi, resource.BinarySI),
					v1.ResourceCPU: resource.MustParse("10m")}}})
			use.Containers = append(use.Containers, eviction.ContainerUse{Name: name, Memory: &share,
				Layer: &eviction.Space{Bytes: int64(i)}, Logs: &eviction.Space{Bytes: 1}})
		}
		in.Pods, in.Use[p.UID] = append(in.Pods, p), use
	}
	return in
}

// pass is what one look at a node that is short decides.
func pass(in eviction.In) eviction.Decision {
	first := in
	first.Pods, first.Use = nil, nil
	if eviction.Decide(first).Target == nil {
		return eviction.Decision{}
	}
	return eviction.Decide(in)
}

func BenchmarkPassOver110Pods(b *testing.B) {
	in := fullNode(b)
	for b.Loop() {
		if pass(in).Victim == nil {
			b.Fatal("nobody goes")
		}
	}
}

// A pass over 110 Pods costs at most 5 ms.
func TestAPassOver110PodsTakes5msAtMost(t *testing.T) {
	in := fullNode(t)
	took := expect.Within(t, 5*time.Millisecond, "a pass", func() {
		if d := pass(in); d.Victim == nil || len(d.Ranked) != 110 {
			t.Fatalf("got %+v, want a victim of 110", d.Victim)
		}
	})
	t.Logf("a pass takes %s", took)
}
