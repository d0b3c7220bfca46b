package provisioner

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

const defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"

// ClassName is the StorageClass that is made.
const ClassName = "local"

// createAll makes the objects, trying again until the API takes them (a server that has just
// started has no roles yet) or ctx ends.
func createAll(ctx context.Context, o Options) error {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 10*time.Second) {
		err := createObjects(ctx, o)
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).V(2).Info("CSIDriver and StorageClass are not made yet", "driver", o.Driver, "err", err)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// createObjects makes the driver's CSIDriver and StorageClass, unless there are such objects: what
// an administrator changed stays. The class is the default one when no other is.
func createObjects(ctx context.Context, o Options) error {
	_, err := o.Client.StorageV1().CSIDrivers().Create(ctx, csiDriver(o.Driver), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	classes, err := o.Client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	class := storageClass(o.Driver)
	for i := range classes.Items {
		if classes.Items[i].Annotations[defaultClassAnnotation] == "true" {
			class.Annotations = nil
		}
	}
	_, err = o.Client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func csiDriver(name string) *storagev1.CSIDriver {
	no, yes, policy := false, true, storagev1.FileFSGroupPolicy
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: &no, PodInfoOnMount: &yes, FSGroupPolicy: &policy, StorageCapacity: &yes,
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent,
			storagev1.VolumeLifecycleEphemeral}}}
}

func storageClass(driver string) *storagev1.StorageClass {
	reclaim, mode, grows := v1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer, true
	return &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: ClassName, Annotations: map[string]string{defaultClassAnnotation: "true"}},
		Provisioner: driver, ReclaimPolicy: &reclaim, VolumeBindingMode: &mode, AllowVolumeExpansion: &grows}
}
