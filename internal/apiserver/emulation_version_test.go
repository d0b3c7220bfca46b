package apiserver

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/features"
)

// What v1.37 sets is not there in v1.36, unless it was asked for.
func TestV136IsEmulated(t *testing.T) {
	allocator, err := newAllocator(Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, emulates := range []bool{false, true} {
		fill := func(resource string, o runtime.Object) {
			for _, k := range Kinds(Config{Features: features.Features{V136: emulates}}, nil, allocator, nil) {
				if k.Resource == resource {
					k.Rules.Default(o)
				}
			}
		}
		set, asked, driver := &appsv1.StatefulSet{}, &appsv1.StatefulSet{}, &storagev1.CSIDriver{}
		asked.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
			MaxUnavailable: new(intstr.FromInt32(2))}
		fill("statefulsets", set)
		fill("statefulsets", asked)
		fill("csidrivers", driver)
		if r := set.Spec.UpdateStrategy.RollingUpdate; (r.MaxUnavailable == nil) != emulates || r.Partition == nil {
			t.Errorf("v1.36 %t: got %+v, want a partition, and maxUnavailable only without emulation", emulates, r)
		}
		if r := asked.Spec.UpdateStrategy.RollingUpdate; r.MaxUnavailable == nil || r.MaxUnavailable.IntValue() != 2 {
			t.Errorf("v1.36 %t: %+v was asked for", emulates, r)
		}
		if (driver.Spec.PreventPodSchedulingIfMissing == nil) != emulates || driver.Spec.AttachRequired == nil {
			t.Errorf("v1.36 %t: got %+v, want attachRequired, and preventPodSchedulingIfMissing only without emulation",
				emulates, driver.Spec)
		}
	}
}
