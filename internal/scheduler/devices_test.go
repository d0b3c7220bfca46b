package scheduler

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gantry-project/gantry/internal/scheduler/replay"
)

const gpuDriver = "gpu.example.com"

// gpusOf offers devices of a node, each of which must be made ready by somebody when asked to
// (KEP-5007).
func gpusOf(node string, ready bool, names ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: resourceapi.ResourceSliceSpec{Driver: gpuDriver, NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
	for _, name := range names {
		d := resourceapi.Device{Name: name}
		if !ready {
			d.BindingConditions, d.BindingFailureConditions = []string{"example.com/attached"},
				[]string{"example.com/broken"}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

func gpuClaim(name string, count int64) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default",
		UID: types.UID("claim-" + name)}, Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{
			{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu",
				AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}}}}}}
}

func usesClaim(name, claim string) *v1.Pod {
	p := aPod(name, "1")
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	return p
}

func withGPUs(t *testing.T, change func(*Options), objects ...runtime.Object) *cluster {
	t.Helper()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu"),
			Selectors: []resourceapi.DeviceSelector{
				{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + gpuDriver + `"`}}}}}
	set := fake.NewClientset(append(objects, class)...)
	set.Resources = append(set.Resources, &metav1.APIResourceList{GroupVersion: "resource.k8s.io/v1",
		APIResources: []metav1.APIResource{{Name: "resourceclaims"}, {Name: "resourceslices"},
			{Name: "deviceclasses"}}})
	return runOn(t, context.Background(), set, change)
}

// Decisions about devices are made again from what was recorded: claims that are free, that are
// allocated elsewhere, that ask for too much, and an extended resource.
func TestDecisionsAboutDevicesCanBeReplayed(t *testing.T) {
	t.Parallel()
	recorded := make(chan *replay.Decision, 1000)
	c := withGPUs(t, func(o *Options) { o.Record = func(d *replay.Decision) { recorded <- d } },
		aNode("n1", "9"), aNode("n2", "9"), gpusOf("n1", true, "a", "b"), gpusOf("n2", true, "c"), gpuClaim("two", 2),
		gpuClaim("one", 1), gpuClaim("many", 3))
	extended := aPod("extended", "1")
	extended.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	for _, x := range []struct {
		pod    *v1.Pod
		winner string
	}{{usesClaim("pair", "two"), "n1"}, {usesClaim("single", "one"), "n2"}, {usesClaim("again", "two"), "n1"},
		{usesClaim("greedy", "many"), ""}, {extended, ""}} {
		c.create(x.pod)
		d := recordedOf(t, recorded, x.pod.Name)
		again, err := replay.Open(d)
		if err != nil {
			t.Fatal(err)
		}
		v, err := again.Replay(t.Context())
		if err != nil || !v.Equal() || v.Skipped != "" || v.Replayed.Winner != x.winner {
			t.Errorf("%s, %v, winner %q, want %q; message %s", v.Line(), err, v.Replayed.Winner, x.winner,
				v.Replayed.Message)
		}
		if d.Objects.Devices == nil || len(d.Objects.Devices.Slices) != 2 {
			t.Errorf("%s: recorded devices: got %+v, want one that is set and Slices of length 2", x.pod.Name,
				d.Objects.Devices)
		}
		if x.winner != "" {
			c.bound(x.pod.Name) // the next one may share its claim, which is not allocated before
		}
	}
	c.create(aPod("plain", "1"))
	if d := recordedOf(t, recorded, "plain"); d.Objects.Devices != nil {
		t.Error("devices are recorded for a Pod that asks for none")
	}
}

// awaitClaimCondition sets a condition of a claim's device, as a driver would.
func (c *cluster) awaitClaimCondition(claim, condition, reason string) {
	c.t.Helper()
	claims := c.ResourceV1().ResourceClaims("default")
	is, err := claims.Get(c.t.Context(), claim, metav1.GetOptions{})
	if err != nil || is.Status.Allocation == nil {
		c.t.Fatalf("claim %s: %v, %+v", claim, err, is.Status)
	}
	r := is.Status.Allocation.Devices.Results[0]
	is.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: r.Driver, Pool: r.Pool, Device: r.Device,
		Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: reason,
			Message: "said the driver"}}}}
	if _, err := claims.UpdateStatus(c.t.Context(), is, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) awaitDeviceWait(pod string) {
	c.t.Helper()
	c.event(pod, "BindingConditionsPending", "waiting for binding conditions for device on node n1")
	if p, err := c.CoreV1().Pods("default").Get(c.t.Context(), pod, metav1.GetOptions{}); err != nil ||
		p.Spec.NodeName != "" {
		c.t.Fatalf("Pod %s is bound before its device is ready: %v", pod, err)
	}
}

// A Pod whose device has binding conditions is bound when the driver says they are met.
func TestABindingWaitsUntilTheDeviceIsReady(t *testing.T) {
	t.Parallel()
	c := withGPUs(t, nil, aNode("n1", "9"), gpusOf("n1", false, "a"), gpuClaim("one", 1))
	c.create(usesClaim("patient", "one"))
	c.awaitDeviceWait("patient")
	c.awaitClaimCondition("one", "example.com/attached", "Attached")
	c.bound("patient")
}

// One whose device fails gives it back, says why, and is tried again.
func TestADeviceThatFailsIsGivenBack(t *testing.T) {
	t.Parallel()
	c := withGPUs(t, nil, aNode("n1", "9"), gpusOf("n1", false, "a"), gpuClaim("one", 1))
	c.create(usesClaim("unlucky", "one"))
	c.awaitDeviceWait("unlucky")
	c.awaitClaimCondition("one", "example.com/broken", "Burnt")
	p := c.await("unlucky", "its device is allocated", isUnschedulable)
	if m := scheduled(p).Message; !strings.Contains(m,
		`claim one binding failed: reason=Burnt, message="said the driver"`) {
		t.Errorf("the condition says %q", m)
	}
	c.await("unlucky", "allocated anew", func(*v1.Pod) bool {
		is, err := c.ResourceV1().ResourceClaims("default").Get(t.Context(), "one", metav1.GetOptions{})
		return err == nil && is.Status.Allocation != nil && len(is.Status.Devices) == 0
	})
	c.awaitClaimCondition("one", "example.com/attached", "Attached")
	c.bound("unlucky")
}
