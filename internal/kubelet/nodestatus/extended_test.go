package nodestatus

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources of device plugins are in the status with what is allocatable of them; one that is 0 now
// takes the place of what was there, one that somebody else patched in stays.
func TestResourcesOfDevicePlugins(t *testing.T) {
	list := func(gpu, fpga string) v1.ResourceList {
		return v1.ResourceList{"vendor.com/gpu": resource.MustParse(gpu), "vendor.com/fpga": resource.MustParse(fpga)}
	}
	old := v1.NodeStatus{Capacity: list("9", "4"), Allocatable: list("9", "4")}
	old.Capacity["other.com/dongle"], old.Allocatable["other.com/dongle"] = resource.MustParse("2"),
		resource.MustParse("1")
	s := Apply(old, Facts{Resources: Resources{ExtraCapacity: list("3", "0"), ExtraAllocable: list("2", "0")}})
	got := ""
	for _, name := range []v1.ResourceName{"vendor.com/gpu", "vendor.com/fpga", "other.com/dongle"} {
		a, c := s.Allocatable[name], s.Capacity[name]
		got += fmt.Sprintf("%s %s/%s, ", name, a.String(), c.String())
	}
	want := "vendor.com/gpu 2/3, vendor.com/fpga 0/0, other.com/dongle 1/2, " // row: DEV-02
	if got != want {
		t.Errorf("allocatable/capacity: got %s, want %s", got, want)
	}
}
