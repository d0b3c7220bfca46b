package whatif

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// holder is a handle that knows devices.
type holder struct {
	framework.Handle
	devices *dynamicresources.FixedManager
}

func (holder) SharedInformerFactory() informers.SharedInformerFactory { return nil }
func (h holder) DeviceAllocation() (framework.SharedDRAManager, dynamicresources.ClaimWriter) {
	return h.devices, nil
}

// A Pod that waits for a device fits when the Pod that uses it is gone: the one whose device is of
// the class, not another.
func TestDevicesAreFreedByRemovingTheirPod(t *testing.T) {
	claim := func(name, class, device string) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			UID: types.UID("claim-" + name)}, Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{
				{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class,
					AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}}}}
		if device != "" {
			c.Status.Allocation = &resourceapi.AllocationResult{
				Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
					{Request: "r", Driver: "d.example.com", Pool: "n1", Device: device}}}}
			c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name,
				UID: types.UID(name)}}
		}
		return c
	}
	class := func(name string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{
				{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["d.example.com"].kind == "` + name +
					`"`}}}}}
	}
	device := func(name, kind string) resourceapi.Device {
		return resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"kind": {StringValue: &kind}}}
	}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec: resourceapi.ResourceSliceSpec{Driver: "d.example.com", NodeName: new("n1"),
			Pool:    resourceapi.ResourcePool{Name: "n1", Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{device("gpu-0", "gpu"), device("nic-0", "nic")}}}
	frozen := dynamicresources.NewFixedManager(claim("trains", "gpu", "gpu-0"), claim("routes", "nic", "nic-0"),
		claim("waits", "gpu", ""), class("gpu"), class("nic"), slice)
	of := func(f *dynamicresources.FixedManager) *schedule.PluginSet {
		j, err := plugins.DefaultPluginSet(v1.DefaultSchedulerName, holder{devices: f})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	uses := func(p *v1.Pod) {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "d", ResourceClaimName: &p.Name}}
	}
	in := In{Pod: asking("waits", "1", "1Gi", uses), Plugins: of(frozen),
		WithoutPods: func(deletedPods map[types.UID]bool) *schedule.PluginSet {
			return of(frozen.Without(deletedPods))
		},
		Snapshot: snapshot.Of([]*v1.Node{node("n1", "8", "8Gi")},
			[]*v1.Pod{asking("trains", "1", "1Gi", uses, on("n1")), asking("routes", "1", "1Gi", uses, on("n1"))})}
	remedies, refusals := FindRemedies(t.Context(), in)
	if len(refusals) != 1 || refusals[0].Plugin != "DynamicResources" {
		t.Fatalf("refusals %+v", refusals)
	}
	if len(remedies) != 1 || !strings.Contains(remedies[0].Description, "remove pod trains") ||
		strings.Join(remedies[0].Run, ";") != "kubectl -n default delete pod trains" {
		t.Errorf("remedies %+v", remedies)
	}
}
