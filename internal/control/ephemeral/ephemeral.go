// Package ephemeral makes the claims of generic ephemeral volumes.
//
// In: Pods with volumes of type ephemeral. Out: a claim per volume, owned by the Pod, with which it
// goes; an event when a claim of the name is somebody else's.
package ephemeral

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	pods              corelisters.PodLister
	claims            corelisters.PersistentVolumeClaimLister
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core := d.Informers.Core().V1()
	c := &controller{d, core.Pods().Lister(), core.PersistentVolumeClaims().Lister()}
	q := controllerruntime.NewQueue("ephemeralvolume", 5, c.syncHandler)
	q.Watch(core.Pods().Informer(), func(old, cur runtime.Object) []string {
		pod, ok := cur.(*v1.Pod)
		if was, had := old.(*v1.Pod); !ok || had && was.UID == pod.UID || !wantsClaims(pod) {
			return nil
		}
		return []string{pod.Namespace + "/" + pod.Name}
	})
	q.Watch(core.PersistentVolumeClaims().Informer(), func(old, cur runtime.Object) []string {
		claim, ok := old.(*v1.PersistentVolumeClaim)
		if cur != nil || !ok {
			return nil // only one that is gone is made anew
		}
		if ref := metav1.GetControllerOf(claim); ref != nil && ref.Kind == "Pod" && ref.APIVersion == "v1" {
			return []string{claim.Namespace + "/" + ref.Name}
		}
		return nil
	})
	return q
}

func wantsClaims(pod *v1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral != nil {
			return true
		}
	}
	return false
}

func (c *controller) syncHandler(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	pod, err := c.pods.Pods(ns).Get(name)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	if !wantsClaims(pod) {
		return 0, nil
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Ephemeral != nil {
			if err := c.createClaim(ctx, pod, v); err != nil {
				c.controllerContext.Recorder.Event(pod, v1.EventTypeWarning, "FailedBinding",
					"ephemeral volume "+v.Name+": "+err.Error())
				return 0, err
			}
		}
	}
	return 0, nil
}

// createClaim makes the claim of one volume, unless it is there.
func (c *controller) createClaim(ctx context.Context, pod *v1.Pod, v *v1.Volume) error {
	claim := ClaimFor(pod, v)
	old, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(claim.Name)
	if err == nil {
		return ephemeral.VolumeIsForPod(pod, old)
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	_, err = c.controllerContext.Client.CoreV1().PersistentVolumeClaims(pod.Namespace).Create(ctx, claim,
		metav1.CreateOptions{})
	created.Inc()
	if err != nil {
		notCreated.Inc()
		return fmt.Errorf("create PVC %s: %w", claim.Name, err)
	}
	return nil
}

// ClaimFor is the claim of an ephemeral volume, which goes with its Pod.
func ClaimFor(pod *v1.Pod, v *v1.Volume) *v1.PersistentVolumeClaim {
	yes, t := true, v.Ephemeral.VolumeClaimTemplate
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: ephemeral.VolumeClaimName(pod, v), Annotations: t.Annotations,
			Labels: t.Labels, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
				UID: pod.UID, Controller: &yes, BlockOwnerDeletion: &yes}}},
		Spec: t.Spec}
}
