package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
		AddFunc: enqueue, UpdateFunc: func(old, obj any) {
			was, ok := old.(*v1.PersistentVolumeClaim)
			if is, ok2 := obj.(*v1.PersistentVolumeClaim); ok && ok2 && worthLooking(was, is) {
				enqueue(is)
			}
		}})
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

// worthLooking tells whether what a resize goes by changed. What the resizer writes itself, how far
// a growth is, is not of it.
func worthLooking(was, is *v1.PersistentVolumeClaim) bool {
	return !equality.Semantic.DeepEqual(was.Spec.Resources, is.Spec.Resources) ||
		was.Spec.VolumeName != is.Spec.VolumeName || was.Status.Phase != is.Status.Phase ||
		!equality.Semantic.DeepEqual(was.Status.Capacity, is.Status.Capacity)
}

// infeasible tells whether the claim says of the size that it asks for that it cannot be. Such a
// one is left alone until the request changes.
func infeasible(c *v1.PersistentVolumeClaim) bool {
	want, tried := c.Spec.Resources.Requests[v1.ResourceStorage], c.Status.AllocatedResources[v1.ResourceStorage]
	how := c.Status.AllocatedResourceStatuses[v1.ResourceStorage]
	return how == v1.PersistentVolumeClaimControllerResizeInfeasible && tried.Cmp(want) == 0
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
		_, err = r.updateResizeStatus(ctx, c, v1.PersistentVolumeClaimNodeResizePending) // its turn
		return err
	}
	if infeasible(c) {
		return nil
	}
	if c, err = r.updateResizeStatus(ctx, c, v1.PersistentVolumeClaimControllerResizeInProgress); err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := r.driver.ControllerExpandVolume(call, &csipb.ControllerExpandVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, CapacityRange: &csipb.CapacityRange{RequiredBytes: want.Value()}})
	if err != nil {
		if code := status.Code(err); code == codes.OutOfRange || code == codes.InvalidArgument {
			_, said := r.updateResizeStatus(ctx, c, v1.PersistentVolumeClaimControllerResizeInfeasible)
			err = errors.Join(err, said)
		}
		return fmt.Errorf("resize volume %q by resizer %q failed: %w", pv.Name, r.o.Driver, err)
	}
	r.report.changed()
	pv = pv.DeepCopy()
	pv.Spec.Capacity[v1.ResourceStorage] = want
	if _, err = r.o.Client.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if got.GetNodeExpansionRequired() {
		_, err = r.updateResizeStatus(ctx, c, v1.PersistentVolumeClaimNodeResizePending)
		return err
	}
	_, err = claims.UpdateStatus(ctx, withResizeFinished(c), metav1.UpdateOptions{})
	return err
}

// withResizeFinished is the claim when its volume has the size asked for. Conditions that are not
// of a resize stay.
func withResizeFinished(c *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	c = c.DeepCopy()
	if c.Status.Capacity == nil {
		c.Status.Capacity = v1.ResourceList{}
	}
	c.Status.Capacity[v1.ResourceStorage] = c.Spec.Resources.Requests[v1.ResourceStorage]
	c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(x v1.PersistentVolumeClaimCondition) bool {
		switch x.Type {
		case v1.PersistentVolumeClaimResizing, v1.PersistentVolumeClaimFileSystemResizePending,
			v1.PersistentVolumeClaimControllerResizeError, v1.PersistentVolumeClaimNodeResizeError:
			return true
		}
		return false
	})
	delete(c.Status.AllocatedResourceStatuses, v1.ResourceStorage)
	return c
}

// updateResizeStatus writes into the claim's status how far its growth is, unless it says so
// already.
func (r *resizer) updateResizeStatus(ctx context.Context, c *v1.PersistentVolumeClaim,
	how v1.ClaimResourceStatus) (*v1.PersistentVolumeClaim, error) {
	next := withResizeStatus(c, how, metav1.Now())
	if next == nil {
		return c, nil
	}
	return r.o.Client.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{})
}

// withResizeStatus is the claim with the status of its growth, as the external-resizer writes it;
// nil when it has that already.
func withResizeStatus(c *v1.PersistentVolumeClaim, how v1.ClaimResourceStatus,
	now metav1.Time) *v1.PersistentVolumeClaim {
	want, allocated := c.Spec.Resources.Requests[v1.ResourceStorage], c.Status.AllocatedResources[v1.ResourceStorage]
	if c.Status.AllocatedResourceStatuses[v1.ResourceStorage] == how && allocated.Cmp(want) == 0 {
		return nil
	}
	c = c.DeepCopy()
	c.Status.AllocatedResources = v1.ResourceList{v1.ResourceStorage: want}
	c.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: how}
	condition := v1.PersistentVolumeClaimCondition{Type: v1.PersistentVolumeClaimResizing, Status: v1.ConditionTrue,
		LastTransitionTime: now}
	if how == v1.PersistentVolumeClaimNodeResizePending {
		condition.Type = v1.PersistentVolumeClaimFileSystemResizePending
		condition.Message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
	}
	c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(x v1.PersistentVolumeClaimCondition) bool {
		return x.Type == v1.PersistentVolumeClaimResizing || x.Type == v1.PersistentVolumeClaimFileSystemResizePending
	})
	c.Status.Conditions = append(c.Status.Conditions, condition)
	return c
}
