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
