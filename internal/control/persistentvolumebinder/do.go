// Package persistentvolumebinder binds PersistentVolumeClaims to PersistentVolumes, and releases
// volumes whose claim is gone.
//
// Each sync of a claim or volume makes at most one write (Step), whose event causes the next sync.
// Claims with WaitForFirstConsumer get a volume from the scheduler; here only its bindings are
// completed. There is one worker, so that two claims never get one volume.
//
// In: claims, volumes, classes, Pods that use claims. Out: claimRef, volumeName, phases, events
// with upstream's texts.
package persistentvolumebinder

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	podutil "github.com/gantry-project/gantry/internal/pod"
)

// Prefixes of queue keys.
const (
	claimKey  = "claim/"
	volumeKey = "volume/"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	claims            corelisters.PersistentVolumeClaimLister
	volumes           corelisters.PersistentVolumeLister
	classes           storagelisters.StorageClassLister
	pods              cache.Indexer
	operations        operations
}

// podsByClaim is the index of the Pods that use a claim.
const podsByClaim = "persistentvolumebinderClaim"

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core, store := d.Informers.Core().V1(), d.Informers.Storage().V1()
	pods := core.Pods().Informer()
	// AddIndexers only fails on a stopped informer, when the process is about to end.
	claims := func(o any) ([]string, error) { return podutil.ClaimKeys(o), nil }
	_ = pods.AddIndexers(cache.Indexers{podsByClaim: claims})
	c := &controller{d, core.PersistentVolumeClaims().Lister(), core.PersistentVolumes().Lister(),
		store.StorageClasses().Lister(), pods.GetIndexer(), operations{}}
	counted.from.Store(&listers{c.claims, c.volumes})
	q := controllerruntime.NewQueue("volumebinding", 1, c.syncHandler)
	q.Watch(core.PersistentVolumeClaims().Informer(), func(old, cur runtime.Object) []string {
		var keys []string
		for _, obj := range []runtime.Object{old, cur} {
			if claim, ok := obj.(*v1.PersistentVolumeClaim); ok {
				keys = append(keys, claimKey+claim.Namespace+"/"+claim.Name)
				if claim.Spec.VolumeName != "" {
					keys = append(keys, volumeKey+claim.Spec.VolumeName)
				}
				if cur == nil {
					keys = append(keys, c.volumesOf(claim)...)
				}
			}
		}
		return slices.Compact(keys)
	})
	q.Watch(core.PersistentVolumes().Informer(), func(old, cur runtime.Object) []string {
		v, ok := cur.(*v1.PersistentVolume)
		if !ok {
			v, _ = old.(*v1.PersistentVolume)
		}
		keys := []string{volumeKey + v.Name}
		if ref := v.Spec.ClaimRef; ref != nil {
			return append(keys, claimKey+ref.Namespace+"/"+ref.Name)
		}
		return append(keys, c.pendingClaims(func(claim *v1.PersistentVolumeClaim) bool {
			return claim.Spec.VolumeName == v.Name ||
				claim.Spec.VolumeName == "" &&
					volume.GetPersistentVolumeClaimClass(claim) == volume.GetPersistentVolumeClass(v)
		})...)
	})
	q.Watch(pods, func(old, cur runtime.Object) []string {
		var keys []string
		if pod, ok := cur.(*v1.Pod); ok && isUnschedulable(pod) && !isUnschedulable(old) {
			for _, claim := range podutil.ClaimKeys(pod) {
				keys = append(keys, claimKey+claim)
			}
		}
		return keys
	})
	q.Watch(store.StorageClasses().Informer(), func(_, cur runtime.Object) []string {
		class, ok := cur.(*storagev1.StorageClass)
		if !ok {
			return nil
		}
		return c.pendingClaims(func(claim *v1.PersistentVolumeClaim) bool {
			return volume.GetPersistentVolumeClaimClass(claim) == class.Name ||
				isDefault(class) && !volume.PersistentVolumeClaimHasClass(claim)
		})
	})
	return q
}

// isUnschedulable tells of a Pod that the scheduler said it has no node for. Before, its claims
// need not say that they wait for it: most Pods are placed at once.
func isUnschedulable(o runtime.Object) bool {
	pod, ok := o.(*v1.Pod)
	return ok && pod.Spec.NodeName == "" && slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse
	})
}

// waiting are the names of the Pods that use a claim and are not scheduled.
func (c *controller) waiting(claim string) ([]string, error) {
	found, err := c.pods.ByIndex(podsByClaim, claim)
	var out []string
	for _, o := range found {
		if pod := o.(*v1.Pod); pod.Spec.NodeName == "" && !podutil.IsTerminal(pod) {
			out = append(out, pod.Name)
		}
	}
	slices.Sort(out)
	return out, err
}

// volumesOf returns the names of the volumes bound to a claim.
func (c *controller) volumesOf(claim *v1.PersistentVolumeClaim) []string {
	all, _ := c.volumes.List(labels.Everything()) // from the cache
	var out []string
	for _, v := range all {
		if ref := v.Spec.ClaimRef; ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name {
			out = append(out, volumeKey+v.Name)
		}
	}
	return out
}

// pendingClaims returns the claims without a volume for which meant is true.
func (c *controller) pendingClaims(meant func(*v1.PersistentVolumeClaim) bool) []string {
	all, _ := c.claims.List(labels.Everything())
	var out []string
	for _, claim := range all {
		if claim.Status.Phase != v1.ClaimBound && meant(claim) {
			out = append(out, claimKey+claim.Namespace+"/"+claim.Name)
		}
	}
	return out
}

func (c *controller) syncHandler(ctx context.Context, key string) (time.Duration, error) {
	if name, ok := strings.CutPrefix(key, volumeKey); ok {
		v, err := c.volumes.Get(name)
		if err != nil {
			c.operations.end(key, c.controllerContext.Time())
			return 0, controllerruntime.IgnoreNotFound(err)
		}
		return 0, c.syncVolume(ctx, v)
	}
	ns, name, _ := cache.SplitMetaNamespaceKey(strings.TrimPrefix(key, claimKey))
	claim, err := c.claims.PersistentVolumeClaims(ns).Get(name)
	if err != nil {
		delete(c.operations, key) // nobody wants a volume any more
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil {
		return 0, nil
	}
	in := In{Volumes: map[string]*v1.PersistentVolume{}}
	if in.Ordered, err = c.volumes.List(labels.Everything()); err != nil {
		return 0, err
	}
	in.Ordered = slices.Clone(in.Ordered)
	slices.SortFunc(in.Ordered, func(a, b *v1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
	for _, v := range in.Ordered {
		in.Volumes[v.Name] = v
	}
	if in.Class, err = c.classes.Get(volume.GetPersistentVolumeClaimClass(claim)); err != nil {
		in.Class = nil
	}
	classes, err := c.classes.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	in.Default = DefaultClass(classes)
	if in.Waiting, err = c.waiting(ns + "/" + name); err != nil {
		return 0, err
	}
	step := ForClaim(claim, in)
	if step.Begins != "" {
		c.operations.begin(key, operation{provisionerOf(in.Class.Provisioner), step.Begins, c.controllerContext.Time()})
	}
	err = c.do(ctx, claim, step)
	c.operations.step(key, step, err, c.controllerContext.Time())
	if s := step.Claim; s != nil && s.Spec.StorageClassName != nil && claim.Spec.StorageClassName == nil {
		if err != nil {
			notDefaulted.Inc()
		} else {
			defaulted.Inc()
		}
	}
	return 0, err
}

func (c *controller) syncVolume(ctx context.Context, v *v1.PersistentVolume) error {
	var failed error
	step := ForVolume(v, In{Claim: func(ns, name string) *v1.PersistentVolumeClaim {
		claim, err := c.claims.PersistentVolumeClaims(ns).Get(name)
		if err == nil && claim.UID == v.Spec.ClaimRef.UID {
			return claim
		}
		// The cache may be behind: the API decides whether the claim is gone.
		claim, err = c.controllerContext.Client.CoreV1().PersistentVolumeClaims(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			failed = err
		}
		if err != nil {
			return nil
		}
		return claim
	}})
	if failed != nil {
		return failed
	}
	key := volumeKey + v.Name
	if step.Begins != "" {
		c.operations.begin(key, operation{c.deleter(v, step), step.Begins, c.controllerContext.Time()})
	}
	err := c.do(ctx, v, step)
	c.operations.step(key, step, err, c.controllerContext.Time())
	return err
}

// deleter names who deletes a volume: the provisioner of its class.
func (c *controller) deleter(v *v1.PersistentVolume, s Step) string {
	class, err := c.classes.Get(volume.GetPersistentVolumeClass(v))
	if err != nil || s.Reason == failedDeletion {
		return unknownPlugin
	}
	return provisionerOf(class.Provisioner)
}

// do writes the step and records its event. After a conflict the object's new version causes
// another sync.
func (c *controller) do(ctx context.Context, about runtime.Object, s Step) error {
	core, err := c.controllerContext.Client.CoreV1(), error(nil)
	switch {
	case s.Volume != nil:
		_, err = core.PersistentVolumes().Update(ctx, s.Volume, metav1.UpdateOptions{})
	case s.VolumeStatus != nil:
		_, err = core.PersistentVolumes().UpdateStatus(ctx, s.VolumeStatus, metav1.UpdateOptions{})
	case s.Claim != nil:
		_, err = core.PersistentVolumeClaims(s.Claim.Namespace).Update(ctx, s.Claim, metav1.UpdateOptions{})
	case s.ClaimStatus != nil:
		_, err = core.PersistentVolumeClaims(s.ClaimStatus.Namespace).UpdateStatus(ctx, s.ClaimStatus,
			metav1.UpdateOptions{})
	}
	if err != nil {
		return controllerruntime.IgnoreNotFound(err)
	}
	if s.Reason != "" && c.controllerContext.Recorder != nil {
		c.controllerContext.Recorder.Event(about, s.EventType, s.Reason, s.Message)
	}
	return nil
}
