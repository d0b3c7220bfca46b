package explain

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// Of a selector that a device does not meet, the literal that is compared with what the device has
// is replaced, in the form in which it is written; an offer is only what the device meets then.
func TestASelectorIsMadeLooserByWhatADeviceHas(t *testing.T) {
	d := &resourcev1.Device{Name: "card-1", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"model": {StringValue: ptr.To("T4")}, "cores": {IntValue: ptr.To(int64(8))},
		"ecc": {BoolValue: ptr.To(false)}, "driverVersion": {VersionValue: ptr.To("1.2.0")}},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
			"memory": {Value: resource.MustParse("16Gi")}}}
	const at, of = `device.attributes["x.test"].`, `device.capacity["x.test"].`
	for _, c := range []struct{ asked, want string }{
		{of + `memory.compareTo(quantity("32Gi")) >= 0`, of + `memory.compareTo(quantity("16Gi")) >= 0`},
		{of + `memory.isGreaterThan(quantity("15Gi")) && ` + at + `model == "V100"`,
			of + `memory.isGreaterThan(quantity("15Gi")) && ` + at + `model == "T4"`},
		{at + `cores >= 16`, at + `cores >= 8`},
		{at + `ecc == true`, at + `ecc == false`},
		{at + `model in ["V100", "A100"]`, at + `model in ["T4"]`},
		{at + `driverVersion.compareTo(semver("2.0.0")) >= 0`, at + `driverVersion.compareTo(semver("1.2.0")) >= 0`},
		{`"model" in device.attributes["x.test"] && device.attributes["x.test"]["model"] == 'V100'`,
			`"model" in device.attributes["x.test"] && device.attributes["x.test"]["model"] == 'T4'`},
		// two literals are wrong: one alone changes nothing
		{at + `model == "V100" && ` + at + `cores >= 16`, ""},
		{at + `speed >= 16`, ""},
	} {
		asked := &resourcev1.ExactDeviceRequest{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: c.asked}}}}
		got := ""
		for _, x := range selectorsFor(asked, "x.test", d) {
			got += x.expression
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.asked, got, c.want)
		}
	}
}

// The nearest free device is offered, by a command that makes the claim anew.
func TestTheNearestFreeDeviceIsAskedFor(t *testing.T) {
	in := base()
	in.Objects = &finding.Cluster{Namespace: "shop"}
	slice := func(node, size string) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "x.test", NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node}, Devices: []resourcev1.Device{{Name: "card",
				Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
					"memory": {Value: resource.MustParse(size)}}}}}}
		s.Name = node
		return s
	}
	in.Objects.Add("ResourceSlice", slice("n1", "8Gi"), slice("n2", "24Gi"), slice("n3", "28Gi"))
	claim := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{Count: 1,
			DeviceClassName: "cards", Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
				Expression: `device.capacity["x.test"].memory.compareTo(quantity("32Gi")) >= 0`}}}}}}}}}
	claim.Namespace, claim.Name = "shop", "big"
	taken := claim.DeepCopy()
	taken.Name, taken.Status.Allocation = "other", &resourcev1.AllocationResult{Devices: resourcev1.
		DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "x.test", Pool: "n3",
		Device: "card"}}}}
	in.Objects.Add("ResourceClaim", claim, taken)
	got := looserSelectors(in, []journal.NodeRefusal{{Node: "n1", Plugin: "DynamicResources", Detail: "claim " +
		"shop/big, request gpu asks for 1 of device class cards: none of the 1 devices of this node matches"}})
	if len(got) != 1 || len(got[0].Run) != 1 || !strings.Contains(got[0].Run[0], `quantity(\"24Gi\")`) ||
		!strings.Contains(got[0].Run[0], "get resourceclaim big -o json") {
		t.Errorf("got %+v, want claim big made anew with 24Gi", got)
	}
}
