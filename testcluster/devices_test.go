package testcluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/testcluster"
)

const driver = "gpu.example.com"

// gpus publishes devices of one node and a class for them.
func gpus(ctx context.Context, t *testing.T, c *testcluster.Cluster, names ...string) {
	t.Helper()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}},
		ExtendedResourceName: new("example.com/gpu"),
	}}
	if _, err := c.Client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1-gpus"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: new("node-1"), Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1,
				ResourceSliceCount: 1},
		}}
	for _, name := range names {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: name})
	}
	if _, err := c.Client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func claimSpec(count int64) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
		{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu",
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}},
	}}}
}

func bound(p *corev1.Pod) bool { return p != nil && p.Spec.NodeName != "" }

func waitsSaying(text string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse &&
				strings.Contains(cond.Message, text) {
				return true
			}
		}
		return false
	}
}

func TestDevicesGoFromPodToPod(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	ctx := within(t, 3*time.Minute)
	gpus(ctx, t, c, "gpu-0", "gpu-1")
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "two", Namespace: "default"},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: claimSpec(2)}}

	user := func(name string) *corev1.Pod {
		p := pod(name, "app")
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: new("two")}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpus"}}
		return p
	}
	create(t, c, user("first")) // before its template is there
	if _, err := c.Client.ResourceV1().ResourceClaimTemplates("default").Create(ctx, template,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	first := c.WaitPod(ctx, "default", "first", bound)
	if len(first.Status.ResourceClaimStatuses) != 1 || first.Status.ResourceClaimStatuses[0].ResourceClaimName == nil {
		t.Fatalf("claims of the Pod: %+v", first.Status.ResourceClaimStatuses)
	}
	name := *first.Status.ResourceClaimStatuses[0].ResourceClaimName
	claim, err := c.Client.ResourceV1().ResourceClaims("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Status.Allocation == nil || len(claim.Status.Allocation.Devices.Results) != 2 ||
		len(claim.Status.ReservedFor) != 1 || claim.Status.ReservedFor[0].UID != first.UID {
		t.Fatalf("the claim's status: %+v", claim.Status)
	}
	if !strings.HasPrefix(name, "first-gpus-") || !metav1.IsControlledBy(claim, first) {
		t.Errorf("claim %s, owners %v", name, claim.OwnerReferences)
	}

	create(t, c, user("second"))
	c.WaitPod(ctx, "default", "second", waitsSaying("0/1 nodes are available: 1 cannot allocate all claims."))
	eventually(t, c, "numbers in the journal", func() bool {
		for _, e := range c.Journal("default", "second") {
			if r, ok := e.Fact.(journal.Ruled); ok && len(r.Refusals) == 1 && strings.Contains(r.Refusals[0].Detail,
				"asks for 2 of device class gpu: 2 of 2 devices of this node match, 2 taken (claim default/"+name+
					")") &&
				strings.Contains(r.Refusals[0].Fix, "free 2 of the devices") {
				return true
			}
		}
		return false
	})

	if err := c.Client.CoreV1().Pods("default").Delete(ctx,
		"first", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	c.WaitPod(ctx, "default", "second", bound)
	eventually(t, c, "the first Pod's claim to go", func() bool {
		_, err := c.Client.ResourceV1().ResourceClaims("default").Get(ctx, name, metav1.GetOptions{})
		return err != nil
	})
}

func TestAClassServesAnExtendedResource(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	ctx := within(t, 3*time.Minute)
	gpus(ctx, t, c, "gpu-0")
	p := pod("extended", "app")
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/gpu": *quantity("1")}
	create(t, c, p)
	is := c.WaitPod(ctx, "default", "extended", bound)
	claimStatus := is.Status.ExtendedResourceClaimStatus
	if claimStatus == nil || len(claimStatus.RequestMappings) != 1 ||
		claimStatus.RequestMappings[0].RequestName != "container-0-request-0" {
		t.Fatalf("extendedResourceClaimStatus: %+v", claimStatus)
	}
	claim, err := c.Client.ResourceV1().ResourceClaims("default").Get(ctx, claimStatus.ResourceClaimName,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Status.Allocation == nil || len(claim.Status.Allocation.Devices.Results) != 1 ||
		claim.Status.Allocation.Devices.Results[0].Device != "gpu-0" {
		t.Fatalf("allocation: %+v", claim.Status.Allocation)
	}
	p = pod("late", "app")
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/gpu": *quantity("1")}
	create(t, c, p)
	c.WaitPod(ctx, "default", "late", waitsSaying("cannot allocate all claims"))
	if err := c.Client.CoreV1().Pods("default").Delete(ctx,
		"extended", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	c.WaitPod(ctx, "default", "late", bound)
}

func quantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}
