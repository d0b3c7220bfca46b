package provisioner

import (
	"context"
	"fmt"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/control/expand"
)

// resizer makes volumes bigger whose claims ask for that, as the external-resizer does.
type resizer struct {
	*Provisioner
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func newResizer(p *Provisioner) *resizer {
	return &resizer{p, workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](time.Second, time.Minute))}
}

func (r *resizer) run(ctx context.Context) {
	f := informers.NewSharedInformerFactory(r.o.Client, 0)
	enqueue := func(obj any) {
		if c, ok := obj.(*v1.PersistentVolumeClaim); ok && expand.WantsMore(c) {
			r.queue.Add(cache.MetaObjectToName(c))
		}
	}
	_, err := f.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }})
	if err != nil {
		return // only a stopped informer refuses a handler
	}
	f.Start(ctx.Done())
	defer f.Shutdown()
	context.AfterFunc(ctx, r.queue.ShutDown)
	for {
		name, quit := r.queue.Get()
		if quit {
			return
		}
		if err := r.resize(ctx, name); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "A volume could not be made bigger, trying again", "claim", name)
			r.queue.AddRateLimited(name)
		} else {
			r.queue.Forget(name)
		}
		r.queue.Done(name)
	}
}

// resize brings one claim's volume to the size asked for.
func (r *resizer) resize(ctx context.Context, name cache.ObjectName) error {
	claims := r.o.Client.CoreV1().PersistentVolumeClaims(name.Namespace)
	c, err := claims.Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil || !expand.WantsMore(c) {
		return controllerruntime.IgnoreNotFound(err)
	}
	pv, err := r.o.Client.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
	if err != nil || !r.ShouldDelete(ctx, pv) || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != c.UID {
		return controllerruntime.IgnoreNotFound(err)
	}
	want := c.Spec.Resources.Requests[v1.ResourceStorage]
	if has := pv.Spec.Capacity[v1.ResourceStorage]; has.Cmp(want) >= 0 {
		return r.pending(ctx, c) // the node's turn
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := r.driver.ControllerExpandVolume(ctx, &csipb.ControllerExpandVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, CapacityRange: &csipb.CapacityRange{RequiredBytes: want.Value()}})
	if err != nil {
		return fmt.Errorf("resize volume %q by resizer %q failed: %w", pv.Name, r.o.Driver, err)
	}
	r.report.changed()
	pv = pv.DeepCopy()
	pv.Spec.Capacity[v1.ResourceStorage] = want
	if _, err = r.o.Client.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if got.GetNodeExpansionRequired() {
		return r.pending(ctx, c)
	}
	c = c.DeepCopy()
	c.Status.Capacity[v1.ResourceStorage] = want
	c.Status.Conditions = nil
	_, err = claims.UpdateStatus(ctx, c, metav1.UpdateOptions{})
	return err
}

// pending says in the claim's status that the node has to grow the file system.
func (r *resizer) pending(ctx context.Context, c *v1.PersistentVolumeClaim) error {
	for _, x := range c.Status.Conditions {
		if x.Type == v1.PersistentVolumeClaimFileSystemResizePending {
			return nil
		}
	}
	c = c.DeepCopy()
	c.Status.Conditions = append(c.Status.Conditions, v1.PersistentVolumeClaimCondition{
		Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue,
		LastTransitionTime: metav1.Now(),
		Message:            "Waiting for user to (re-)start a pod to finish file system resize of volume on node."})
	_, err := r.o.Client.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{})
	return err
}
