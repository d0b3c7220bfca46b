package resource

import (
	"context"
	"errors"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/test/expect"
)

func exact(change func(*resourcev1.ExactDeviceRequest)) *resourcev1.ResourceClaim {
	r := &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}
	if change != nil {
		change(r)
	}
	c := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "n"},
		Spec: resourcev1.ResourceClaimSpec{
			Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: r}}}},
	}
	defaultDevices(&c.Spec.Devices)
	return c
}

func selector(text string) []resourcev1.DeviceSelector {
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: text}}}
}

// TestClaims holds the checks of a claim's spec against upstream's words.
func TestClaims(t *testing.T) {
	many := make([]resourcev1.DeviceRequest, resourcev1.DeviceRequestsMaxSize+1)
	for i := range many {
		many[i] = resourcev1.DeviceRequest{Name: "r" + strings.Repeat("a", i),
			Exactly: exact(nil).Spec.Devices.Requests[0].Exactly}
	}
	for name, c := range map[string]struct {
		claim *resourcev1.ResourceClaim
		want  string
	}{
		"good": {exact(nil), ""},
		"selector": {
			exact(func(r *resourcev1.ExactDeviceRequest) {
				r.Selectors = selector(`device.driver == "gpu.example.com"`)
			}), ""},
		"selector of another type": {
			exact(func(r *resourcev1.ExactDeviceRequest) { r.Selectors = selector(`device.driver`) }),
			`spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "device.driver": must ` +
				`evaluate to bool or the unknown type, not string`,
		},
		"count with all": {
			exact(func(r *resourcev1.ExactDeviceRequest) {
				r.AllocationMode, r.Count = resourcev1.DeviceAllocationModeAll, 2
			}),
			`spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is ` +
				`'All'`,
		},
		"negative count": {
			exact(func(r *resourcev1.ExactDeviceRequest) { r.Count = -1 }),
			`spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero`,
		},
		"mode": {
			exact(func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode = "Some" }),
			`spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All",` +
				` "ExactCount"`,
		},
		"toleration": {
			exact(func(r *resourcev1.ExactDeviceRequest) {
				r.Tolerations = []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists,
					Value: "v"}}
			}),
			"spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: \"v\": must be empty for operator " +
				"`Exists`",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := expect.ErrorText(checkClaim(c.claim, nil).ToAggregate()); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	c := exact(nil)
	c.Spec.Devices.Requests = many
	if got := expect.ErrorText(checkClaim(c, nil).ToAggregate()); !strings.Contains(got,
		"spec.devices.requests: Too many: 33: must have at most 32 items") {
		t.Errorf(`got %v, want it with "spec.devices.requests: Too many: 33: must have at most…"`, got)
	}
}

// TestAdmin wants claims with admin access only in namespaces that allow it. KEP-5018.
func TestAdmin(t *testing.T) {
	labels := map[string]string{}
	var failed error
	rules := claims(func(context.Context, string) (map[string]string, error) { return labels, failed }).Rules
	c := exact(func(r *resourcev1.ExactDeviceRequest) { r.AdminAccess = ptr.To(true) })
	const want = "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the " +
		"`resource.kubernetes.io/admin-access: true` label on the containing namespace"
	if got := expect.ErrorText(rules.Validate(t.Context(), c).ToAggregate()); got != want {
		t.Errorf("rules.Validate(t.Context(), c) = %v, want %v", got, want)
	}
	labels[resourcev1.DRAAdminNamespaceLabelKey] = "true"
	if got := expect.ErrorText(rules.Validate(t.Context(), c).ToAggregate()); got != "" {
		t.Errorf("rules.Validate(t.Context(), c) = %q, want nothing", got)
	}
	if failed = errors.New("away"); expect.ErrorText(rules.Validate(t.Context(), c).ToAggregate()) == "" {
		t.Error("an unreadable namespace gave admin access")
	}
}

// TestAdminStatus wants the same of what a status gives with admin access, unless it had some.
func TestAdminStatus(t *testing.T) {
	labels := map[string]string{}
	rules := claims(func(context.Context, string) (map[string]string, error) { return labels, nil }).Rules
	admin := func(c *resourcev1.ResourceClaim) {
		c.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	}
	given := allocated(admin)
	const want = "status.allocation.devices.results[0].adminAccess: Forbidden: admin access to devices requires the " +
		"`resource.kubernetes.io/admin-access: true` label on the containing namespace"
	if got := expect.ErrorText(rules.ValidateStatus(t.Context(), given, exact(nil)).ToAggregate()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, c := range map[string][2]*resourcev1.ResourceClaim{
		"as it was": {given, given}, "without": {allocated(nil), exact(nil)}, "taken back": {exact(nil), given},
	} {
		if got := expect.ErrorText(rules.ValidateStatus(t.Context(), c[0], c[1]).ToAggregate()); got != "" {
			t.Errorf("%s: got %q, want nothing", name, got)
		}
	}
	labels[resourcev1.DRAAdminNamespaceLabelKey] = "true"
	if got := expect.ErrorText(rules.ValidateStatus(t.Context(), given, exact(nil)).ToAggregate()); got != "" {
		t.Errorf("with the label: got %q, want nothing", got)
	}
}

func allocated(change func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
	c := exact(nil)
	c.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "r", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"},
		}}}
	if change != nil {
		change(c)
	}
	return c
}

// TestStatus holds the rules of a claim's status: allocation is written once, users need an
// allocation, drivers speak about what was given.
func TestStatus(t *testing.T) {
	user := []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}
	device := resourcev1.AllocatedDeviceStatus{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}
	other := device
	other.Device = "gpu-1"
	for name, c := range map[string]struct {
		now, was *resourcev1.ResourceClaim
		want     string
	}{
		"allocate":  {allocated(nil), exact(nil), ""},
		"take away": {exact(nil), allocated(nil), ""},
		"other": {
			allocated(func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Device = "gpu-9" }),
			allocated(nil), "field cannot be modified once set",
		},
		"unknown request": {
			allocated(func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Request = "zz" }),
			exact(nil),
			"status.allocation.devices.results[0].request: Invalid value: \"zz\": must be the name of a request",
		},
		"reserve": {allocated(func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = user }), allocated(nil), ""},
		"reserve while it goes": {
			allocated(func(c *resourcev1.ResourceClaim) {
				c.Status.ReservedFor, c.DeletionTimestamp = user, ptr.To(metav1.Now())
			}), allocated(nil),
			"status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or " +
				"`deletionTimestamp` are set",
		},
		"device": {allocated(func(c *resourcev1.ResourceClaim) {
			c.Status.Devices = []resourcev1.AllocatedDeviceStatus{device}
		}), allocated(nil), ""},
		"another's device": {
			allocated(func(c *resourcev1.ResourceClaim) {
				c.Status.Devices = []resourcev1.AllocatedDeviceStatus{other}
			}), allocated(nil),
			"must be an allocated device in the claim",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := expect.ErrorText(checkStatus(c.now, c.was).ToAggregate())
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestSlices holds the rules of what drivers publish.
func TestSlices(t *testing.T) {
	good := func(change func(*resourcev1.ResourceSlice)) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: ptr.To("n"),
			Pool: resourcev1.ResourcePool{Name: "n", ResourceSliceCount: 1},
			Devices: []resourcev1.Device{
				{Name: "gpu-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
					"model": {StringValue: ptr.To("a")}}}},
		}}
		if change != nil {
			change(s)
		}
		return s
	}
	for name, c := range map[string]struct {
		slice, was *resourcev1.ResourceSlice
		want       string
	}{
		"good": {good(nil), nil, ""},
		"no node": {good(func(s *resourcev1.ResourceSlice) { s.Spec.NodeName = nil }), nil,
			"spec: Required value: exactly one of `nodeName`"},
		"two ways": {good(func(s *resourcev1.ResourceSlice) { s.Spec.AllNodes = ptr.To(true) }), nil,
			"but multiple fields are set"},
		"same device": {
			good(func(s *resourcev1.ResourceSlice) { s.Spec.Devices = append(s.Spec.Devices, s.Spec.Devices[0]) }), nil,
			`spec.devices[1]: Duplicate value: "gpu-0"`},
		"version": {
			good(func(s *resourcev1.ResourceSlice) {
				s.Spec.Devices[0].Attributes["v"] = resourcev1.DeviceAttribute{VersionValue: ptr.To("one")}
			}), nil, "must be a string compatible with semver.org spec 2.0.0",
		},
		"another driver": {good(func(s *resourcev1.ResourceSlice) { s.Spec.Driver = "x.example.com" }), good(nil),
			"spec.driver: Invalid value: \"x.example.com\": field is immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			got := expect.ErrorText(checkSlice(c.slice, c.was).ToAggregate())
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	s := good(func(s *resourcev1.ResourceSlice) {
		s.Spec.SkipNodeOperations = []resourcev1.SkipNodeOperation{"*"}
		s.Spec.Devices[0].Attributes["l"] = resourcev1.DeviceAttribute{IntValue: ptr.To[int64](1),
			IntValues: []int64{1}}
	})
	resourceSlices().Rules.PrepareCreate(t.Context(), s)
	if s.Spec.SkipNodeOperations != nil || s.Spec.Devices[0].Attributes["l"].IntValues != nil ||
		s.Spec.Devices[0].Attributes["l"].IntValue == nil {
		t.Error("fields behind gates that are off must be dropped, others kept", s.Spec)
	}
	var _ runtime.Object = s
}
