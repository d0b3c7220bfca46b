package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi"
	"github.com/gantry-project/gantry/internal/kubelet/volumemanager/volumehealth"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

// csiVolumes are the parts that serve CSI volumes.
type csiVolumes struct {
	plugin      csi.Plugin
	nodeInfo    *csi.NodeInfoManager
	attachments *csi.NodeAttachments
	health      *volumehealth.Manager // nil: the gate CSIVolumeHealth is off
	limits      *csi.LimitUpdater
}

// newCSIVolumes makes the parts; they live as long as ctx.
func (k *Kubelet) newCSIVolumes(ctx context.Context) *csiVolumes {
	o := k.opts
	c := &csiVolumes{nodeInfo: &csi.NodeInfoManager{Client: o.Client, NodeName: o.NodeName},
		attachments: csi.NewNodeAttachments(o.Dependencies.NodeStatusChanged)}
	api := csiAPI{volumeAPI: volumeAPI{o.Client}}
	drivers := csi.NewDrivers(ctx, c.nodeInfo)
	drivers.Called = o.Dependencies.Metrics.CSICalled
	if !o.StaticPods.Standalone {
		f := informers.NewSharedInformerFactory(o.Client, 0)
		objects := f.Storage().V1().CSIDrivers()
		api.drivers, api.synced = objects.Lister(), objects.Informer().HasSynced
		c.limits = &csi.LimitUpdater{Drivers: drivers, Driver: api.csiDriver}
		drivers.Registered = c.limits.Changed
		// AddEventHandler only fails on a stopped informer, when the process is about to end.
		_, _ = objects.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.limits.Changed() }, UpdateFunc: func(any, any) { c.limits.Changed() },
			DeleteFunc: func(any) { c.limits.Changed() }})
		f.Start(ctx.Done())
		go c.limits.Run(ctx)
	}
	c.plugin = csi.Plugin{Root: o.RootDir, NodeName: o.NodeName, Drivers: drivers, API: api,
		Attach: c.attachments, Mounts: o.Dependencies.Mounts, SELinux: hasSELinux()}
	return c
}

// DriverVolumeStats asks a CSI driver how full a volume is; says is false when the driver does not
// serve that, or no driver could be there yet.
func (k *Kubelet) DriverVolumeStats(ctx context.Context, v volume.DriverVolume, path string) (d usage.Disk, says bool,
	err error) {
	if k.workers() == nil {
		return d, false, nil
	}
	return k.csi.plugin.Drivers.VolumeStats(ctx, v, path)
}

// newVolumeHealth makes the manager that asks drivers how volumes are; nil while the gate
// CSIVolumeHealth is off.
func (k *Kubelet) newVolumeHealth() *volumehealth.Manager {
	gates, err := config.ResolveGates(k.opts.Config.FeatureGates)
	if err != nil || !gates.On("CSIVolumeHealth") || k.opts.StaticPods.Standalone {
		return nil // the gates were read before
	}
	return volumehealth.New(volumehealth.Deps{Drivers: k.csi.plugin.Drivers,
		Volumes: k.volumeManager.VolumesToReportHealth, UpdateStorageHealth: k.csi.nodeInfo.UpdateStorageHealth,
		Changed:  func(uid types.UID) { k.podWorkers.Wake(uid) },
		Reported: k.opts.Dependencies.Metrics.StorageHealth, Interval: k.opts.Config.VolumeStatsAggPeriod.Duration})
}

// volumeHealth is what drivers say of a Pod's volumes.
func (k *Kubelet) volumeHealth(uid types.UID) map[string][]v1.VolumeHealthCondition {
	if k.csi.health == nil {
		return nil
	}
	return k.csi.health.Of(uid)
}

// hasSELinux tells whether the node's kernel labels by SELinux.
func hasSELinux() bool {
	_, err := os.Stat("/sys/fs/selinux/enforce")
	return err == nil
}

// restoreVolumesInUse finds what an earlier kubelet left staged.
func (k *Kubelet) restoreVolumesInUse(ctx context.Context) {
	staged, err := k.volumeManager.StagedVolumes()
	if err != nil {
		klog.FromContext(ctx).Error(err, "What is stored of staged volumes cannot be read")
	}
	var names []v1.UniqueVolumeName
	for _, d := range staged {
		if d.PluginName == (csi.Plugin{}).Name() {
			names = append(names, csi.UniqueVolumeName(d.DriverName, d.VolumeHandle))
		}
	}
	k.csi.attachments.Restore(names)
}

// VolumesInUse is what the node's status has to say under volumesInUse; false while it has to stay
// as it is.
func (k *Kubelet) VolumesInUse() ([]v1.UniqueVolumeName, bool) {
	if k.workers() == nil {
		return nil, false
	}
	return k.csi.attachments.InUse()
}

// csiAPI is what CSI volumes ask of the API.
type csiAPI struct {
	volumeAPI
	drivers storagelisters.CSIDriverLister // nil without an API server
	synced  cache.InformerSynced
}

// GetCSIDriver reads from the cache, once it is filled.
func (a csiAPI) GetCSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	switch {
	case a.drivers == nil:
		return nil, errors.New("CSI volumes need an API server, this kubelet has none")
	case !a.synced() && ctx.Done() == nil, !cache.WaitForCacheSync(ctx.Done(), a.synced):
		return nil, errors.New("the CSIDriver objects are not known yet")
	}
	return a.drivers.Get(name)
}

// csiDriver is the CSIDriver object as far as it is known; nil when there is none.
func (a csiAPI) csiDriver(name string) *storagev1.CSIDriver {
	obj, err := a.drivers.Get(name)
	if err != nil {
		return nil
	}
	return obj
}

// GetSecret reads a Secret.
func (a csiAPI) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return a.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

// GetVolumeAttachment reads a VolumeAttachment.
func (a csiAPI) GetVolumeAttachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error) {
	return a.client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
}

// ChangeClaim writes the status of the volume's claim when change says so.
func (a csiAPI) ChangeClaim(ctx context.Context, pv *v1.PersistentVolume,
	change func(*v1.PersistentVolumeClaim) bool) (c *v1.PersistentVolumeClaim, err error) {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return nil, fmt.Errorf("volume %s has no claim", pv.Name)
	}
	claims := a.client.CoreV1().PersistentVolumeClaims(ref.Namespace)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if c, err = claims.Get(ctx, ref.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if c.UID != ref.UID {
			return fmt.Errorf("claim %s/%s is another than that of volume %s", ref.Namespace, ref.Name, pv.Name)
		}
		if !change(c) {
			return nil
		}
		c, err = claims.UpdateStatus(ctx, c, metav1.UpdateOptions{})
		return err
	})
	return c, err
}

// PendingDriverCalls are the calls that CSI drivers have not answered yet, oldest first, and the
// names of the registered drivers.
func (k *Kubelet) PendingDriverCalls() (calls []csi.Call, registered []string) {
	if k.csi == nil || k.csi.plugin.Drivers == nil {
		return nil, nil
	}
	calls, registered = k.csi.plugin.Drivers.PendingCalls(), k.csi.plugin.Drivers.Names()
	slices.SortFunc(calls, func(a, b csi.Call) int { return a.Since.Compare(b.Since) })
	slices.Sort(registered)
	return calls, registered
}

// volumeOperation is what the metrics are told of an operation.
func volumeOperation(o volume.Operation) metrics.VolumeOperation {
	return metrics.VolumeOperation{Plugin: o.Plugin, Driver: o.Driver, Operation: o.Name, Migrated: o.Migrated,
		Err: o.Err, Took: o.Took, Overall: o.Overall}
}
