package snapshot_test

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	gpod "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// TestRequestsEqualTheLibrarys: reading plain Pods without the library gives the library's figures,
// fractions included.
func TestRequestsEqualTheLibrarys(t *testing.T) {
	missing := v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"),
		v1.ResourceMemory: resource.MustParse("200Mi")}
	rapid.Check(t, func(t *rapid.T) {
		p := &v1.Pod{}
		for range rapid.IntRange(1, 3).Draw(t, "containers") {
			list := v1.ResourceList{}
			for _, name := range []v1.ResourceName{"cpu", "memory", "ephemeral-storage", "example.com/gpu", "storage"} {
				if q := rapid.SampledFrom([]string{"", "", "0", "1", "250m", "0.0004", "1500u", "1Gi", "3k"}).Draw(t,
					string(name)); q != "" {
					list[name] = resource.MustParse(q)
				}
			}
			p.Spec.Containers = append(p.Spec.Containers,
				v1.Container{Resources: v1.ResourceRequirements{Requests: list}})
		}
		if got, want := snapshot.Requests(p), fit.VectorOf(gpod.Requests(p)); !reflect.DeepEqual(got, want) {
			t.Fatalf("asks %+v, want %+v", got, want)
		}
		if got, want := snapshot.RequestsNonZero(p), fit.VectorOf(gpod.RequestsWith(p, missing)); !reflect.DeepEqual(
			got, want) {
			t.Fatalf("asks with defaults %+v, want %+v", got, want)
		}
	})
}

// The scheduler counts the larger of the app containers and the largest init container, with
// sidecars and overhead.
//
// row: ISE-15
func TestRequestsAreTheEffectiveOnes(t *testing.T) {
	asks := func(cpu, memory string, policy *v1.ContainerRestartPolicy) v1.Container {
		return v1.Container{RestartPolicy: policy, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}}}
	}
	always := new(v1.ContainerRestartPolicyAlways)
	apps := []v1.Container{asks("1", "1Gi", nil), asks("1", "1Gi", nil)}
	for name, x := range map[string]struct {
		spec          v1.PodSpec
		milli, memory int64
	}{
		"app containers": {v1.PodSpec{Containers: apps}, 2000, 2 << 30},
		"an init container that asks for more": {v1.PodSpec{Containers: apps,
			InitContainers: []v1.Container{asks("3", "1Gi", nil)}}, 3000, 2 << 30},
		"a sidecar": {v1.PodSpec{Containers: apps,
			InitContainers: []v1.Container{asks("1", "1Gi", always)}}, 3000, 3 << 30},
		"an overhead": {v1.PodSpec{Containers: apps, Overhead: apps[0].Resources.Requests}, 3000, 3 << 30},
	} {
		p := &v1.Pod{Spec: x.spec}
		both, nonZero := snapshot.RequestsAndNonZero(p)
		for form, got := range map[string]fit.Vector{"Requests": snapshot.Requests(p),
			"RequestsNonZero": snapshot.RequestsNonZero(p), "both: requests": both, "both: nonzero": nonZero} {
			if got.MilliCPU != x.milli || got.Memory != x.memory {
				t.Errorf("%s, %s: %d milli-CPUs and %d bytes, want %d and %d", name, form, got.MilliCPU, got.Memory,
					x.milli, x.memory)
			}
		}
	}
}
