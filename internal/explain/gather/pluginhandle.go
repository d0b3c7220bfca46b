package gather

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
)

// readDevices reads claims, classes and slices; what the caller may not list is taken as absent.
func readDevices(ctx context.Context, r *reader,
	all metav1.ListOptions) *dynamicresources.FixedManager {
	var objects []runtime.Object
	if l, err := r.client.ResourceV1().ResourceClaims("").List(ctx, all); r.seen("resourceclaims", err) {
		objects = appendAll(objects, l.Items)
	}
	if l, err := r.client.ResourceV1().DeviceClasses().List(ctx, all); r.seen("deviceclasses", err) {
		objects = appendAll(objects, l.Items)
	}
	if l, err := r.client.ResourceV1().ResourceSlices().List(ctx, all); r.seen("resourceslices", err) {
		objects = appendAll(objects, l.Items)
	}
	return dynamicresources.NewFixedManager(objects...)
}

// pluginHandle is as much of a scheduler's handle as plugins need that only filter and score: what
// is known of volumes and namespaces.
type pluginHandle struct {
	framework.Handle
	facts     volumelisters.Listers
	informers informers.SharedInformerFactory // never started: its store holds what was read once
	devices   *dynamicresources.FixedManager
}

// DeviceAllocation implements plugins.DRAHolder; nothing is allocated here.
func (v pluginHandle) DeviceAllocation() (framework.SharedDRAManager, dynamicresources.ClaimWriter) {
	return v.devices, nil
}

// VolumeListers implements volumelisters.ListersHolder.
func (v pluginHandle) VolumeListers() volumelisters.Listers { return v.facts }

// SharedInformerFactory implements framework.Handle.
func (v pluginHandle) SharedInformerFactory() informers.SharedInformerFactory { return v.informers }

// newPluginHandle reads what plugins decide by: namespaces, and of volumes and devices what is
// demanded.
func newPluginHandle(ctx context.Context, r *reader, d demand) pluginHandle {
	all := metav1.ListOptions{ResourceVersion: "0"}
	v := pluginHandle{facts: volumelisters.Of(), informers: informers.NewSharedInformerFactory(r.client, 0),
		devices: dynamicresources.NewFixedManager()}
	if d.storage {
		v.facts = readStorageFacts(ctx, r, all)
	}
	if d.devices {
		v.devices = readDevices(ctx, r, all)
	}
	if l, err := r.client.CoreV1().Namespaces().List(ctx, all); r.seen("namespaces", err) {
		store := v.informers.Core().V1().Namespaces().Informer().GetStore()
		for i := range l.Items {
			_ = store.Add(&l.Items[i]) // a store in memory that keys by name
		}
	}
	return v
}

// readStorageFacts reads claims, volumes and what belongs to them; what the caller may not list is
// taken as absent.
func readStorageFacts(ctx context.Context, r *reader, all metav1.ListOptions) volumelisters.Listers {
	var objects []runtime.Object
	if l, err := r.client.CoreV1().PersistentVolumeClaims("").List(ctx, all); r.seen("persistentvolumeclaims", err) {
		objects = appendAll(objects, l.Items)
	}
	if l, err := r.client.CoreV1().PersistentVolumes().List(ctx, all); r.seen("persistentvolumes", err) {
		objects = appendAll(objects, l.Items)
	}
	if l, err := r.client.StorageV1().StorageClasses().List(ctx, all); r.seen("storageclasses", err) {
		objects = appendAll(objects, l.Items)
	}
	if l, err := r.client.StorageV1().CSINodes().List(ctx, all); r.seen("csinodes", err) {
		objects = appendAll(objects, l.Items)
	}
	if l, err := r.client.StorageV1().CSIDrivers().List(ctx, all); r.seen("csidrivers", err) {
		objects = appendAll(objects, l.Items)
	}
	if l, err := r.client.StorageV1().CSIStorageCapacities("").List(ctx, all); r.seen("csistoragecapacities", err) {
		objects = appendAll(objects, l.Items)
	}
	if l, err := r.client.StorageV1().VolumeAttachments().List(ctx, all); r.seen("volumeattachments", err) {
		objects = appendAll(objects, l.Items)
	}
	return volumelisters.Of(objects...)
}

func appendAll[T any, P interface {
	*T
	runtime.Object
}](out []runtime.Object, items []T) []runtime.Object {
	for i := range items {
		out = append(out, P(&items[i]))
	}
	return out
}
