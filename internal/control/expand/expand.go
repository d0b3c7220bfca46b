// Package expand says which component expands a volume whose claim asks for more than it has.
//
// In: bound claims, their volumes. Out: the event that an external resizer is waited for, and for
// volumes of in-tree plugins the annotation that names the CSI driver whose resizer it is. There is
// no type of volume that this cluster resizes itself.
package expand

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/pod/csimigration"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	claims            corelisters.PersistentVolumeClaimLister
	volumes           corelisters.PersistentVolumeLister
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core := d.Informers.Core().V1()
	c := &controller{d, core.PersistentVolumeClaims().Lister(), core.PersistentVolumes().Lister()}
	q := controllerruntime.NewQueue("persistentvolumeexpander", 1, c.syncHandler)
	q.Watch(core.PersistentVolumeClaims().Informer(), func(old, cur runtime.Object) []string {
		was, _ := old.(*v1.PersistentVolumeClaim)
		is, _ := cur.(*v1.PersistentVolumeClaim)
		if is == nil || !WantsMore(is) || was != nil && was.Spec.Resources.Requests.Storage().Cmp(
			*is.Spec.Resources.Requests.Storage()) == 0 {
			return nil
		}
		return []string{is.Namespace + "/" + is.Name}
	})
	return q
}

// WantsMore tells whether a bound claim asks for more than it has.
func WantsMore(c *v1.PersistentVolumeClaim) bool {
	want, has := c.Spec.Resources.Requests[v1.ResourceStorage], c.Status.Capacity[v1.ResourceStorage]
	return c.Status.Phase == v1.ClaimBound && c.DeletionTimestamp == nil && want.Cmp(has) > 0
}

func (c *controller) syncHandler(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	claim, err := c.claims.PersistentVolumeClaims(ns).Get(name)
	if err != nil || !WantsMore(claim) {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	v, err := c.volumes.Get(claim.Spec.VolumeName)
	if err != nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != claim.UID {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	if plugin, migrated := csimigration.Plugin(v); migrated {
		c.controllerContext.Recorder.Event(claim, v1.EventTypeNormal, "ExternalExpanding",
			fmt.Sprintf("CSI migration enabled for %s; waiting for external resizer to expand the pvc", plugin))
		driver, _ := csimigration.Driver(plugin)
		return 0, c.setResizer(ctx, claim, driver)
	}
	c.controllerContext.Recorder.Event(claim, v1.EventTypeNormal, "ExternalExpanding",
		"waiting for an external controller to expand this PVC")
	return 0, nil
}

// resizerAnnotation names whose resizer expands a claim's volume.
const resizerAnnotation = "volume.kubernetes.io/storage-resizer"

// setResizer has the claim name its resizer.
func (c *controller) setResizer(ctx context.Context, claim *v1.PersistentVolumeClaim, name string) error {
	if claim.Annotations[resizerAnnotation] == name {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{resizerAnnotation: name}}})
	if err != nil {
		return err
	}
	_, err = c.controllerContext.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name,
		types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return controllerruntime.IgnoreNotFound(err)
}
