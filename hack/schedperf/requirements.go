package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// driver serves the volumes and devices of measured Pods; limit is how many of its volumes a node
// takes, as in scheduler_perf.
const (
	driver = "ebs.csi.example.com"
	limit  = 39
)

// drivers sets the volume limit of the driver on every node.
func drivers(ctx context.Context, b *testbed, nodes int) error {
	return csiNodes(ctx, b, nodes, func(*storagev1.CSINode) {})
}

// csiMigration does so for the driver that replaces an in-tree plugin.
func csiMigration(ctx context.Context, b *testbed, nodes int) error {
	return csiNodes(ctx, b, nodes, func(n *storagev1.CSINode) {
		n.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs"}
		n.Spec.Drivers[0].Name = "ebs.csi.aws.com"
	})
}

func csiNodes(ctx context.Context, b *testbed, nodes int, change func(*storagev1.CSINode)) error {
	return b.each(ctx, nodes, func(i int) error {
		n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: nodeName(i),
				Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(limit))}}},
		}}
		change(n)
		_, err := b.client.StorageV1().CSINodes().Create(ctx, n, metav1.CreateOptions{})
		return err
	})
}

// perNode is how many devices a node has.
const perNode = 10

// withDevices publishes devices of one class on every node.
func withDevices(ctx context.Context, b *testbed, nodes int) error {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "test-class"},
		Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{
				{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}},
		}}
	if _, err := b.client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	return b.each(ctx, nodes, func(i int) error {
		name := nodeName(i)
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1},
		}}
		for k := range perNode {
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("device-%d", k)})
		}
		_, err := b.client.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{})
		return err
	})
}

// deviceClaim creates a Pod's claim, as the controller does from a template. A real API gives it
// its own UID.
func deviceClaim(ctx context.Context, b *testbed, name string) error {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "sched-1", Name: name,
		UID: types.UID(name)}, Spec: resourceapi.ResourceClaimSpec{
		Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{
				{Name: "one", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "test-class",
					AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}},
	}}
	_, err := b.client.ResourceV1().ResourceClaims("sched-1").Create(ctx, claim, metav1.CreateOptions{})
	return err
}

// volume creates a CSI volume and a claim bound to it.
func volume(ctx context.Context, b *testbed, name string) error {
	return bound(ctx, b, name,
		v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}})
}

// inTree creates a volume of an in-tree plugin and a claim bound to it.
func inTree(ctx context.Context, b *testbed, name string) error {
	return bound(ctx, b, name,
		v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + name}})
}

func bound(ctx context.Context, b *testbed, name string, source v1.PersistentVolumeSource) error {
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	none := ""
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations: map[string]string{"pv.kubernetes.io/bound-by-controller": "true"}}, Spec: v1.PersistentVolumeSpec{
		Capacity: size, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany},
		ClaimRef:               &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "sched-1", Name: name},
		PersistentVolumeSource: source,
	}}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
		Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "true"}}, Spec: v1.PersistentVolumeClaimSpec{
		VolumeName: name, StorageClassName: &none, AccessModes: pv.Spec.AccessModes,
		Resources: v1.VolumeResourceRequirements{Requests: size},
	}}
	made, err := b.client.CoreV1().PersistentVolumeClaims("sched-1").Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: pv.Spec.AccessModes, Capacity: size}
	if made, err = b.client.CoreV1().PersistentVolumeClaims("sched-1").UpdateStatus(ctx, made,
		metav1.UpdateOptions{}); err != nil {
		return err
	}
	pv.Spec.ClaimRef.UID = made.UID
	if pv, err = b.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); err != nil {
		return err
	}
	pv.Status.Phase = v1.VolumeBound
	_, err = b.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{})
	return err
}
