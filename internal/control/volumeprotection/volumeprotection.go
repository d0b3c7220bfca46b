// Package volumeprotection removes the protection finalizers of PersistentVolumeClaims,
// PersistentVolumes and VolumeAttributesClasses that are not in use.
//
// Admission adds the finalizers, the controllers where one lacks it. They are removed from a
// deleted claim if no bound Pod uses it, from a volume if it is not bound, from a class if no claim
// and no volume has it. The condition Unused of a bound claim tells whether a Pod names it. In:
// claims, volumes, classes, Pods. Out: finalizers added and removed, the condition.
package volumeprotection

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/pod"
)

// The finalizers.
const (
	ClaimFinalizer  = "kubernetes.io/pvc-protection"
	VolumeFinalizer = "kubernetes.io/pv-protection"
	ClassFinalizer  = "kubernetes.io/vac-protection"
)

// without returns the list without the finalizer; false if it is not there.
func without(all []string, finalizer string) ([]string, bool) {
	i := slices.Index(all, finalizer)
	if i < 0 {
		return slices.Clone(all), false
	}
	return slices.Delete(slices.Clone(all), i, i+1), true
}

// ClaimsUsedBy returns the claims that a bound Pod uses: before binding no volume is mounted. A
// terminated Pod does not use ephemeral claims created for it, which its own finalizer may wait
// for.
func ClaimsUsedBy(p *v1.Pod) []string {
	if p.Spec.NodeName == "" {
		return nil
	}
	var out []string
	for i := range p.Spec.Volumes {
		if name, made := pod.ClaimName(p, &p.Spec.Volumes[i]); name != "" && !(made && isTerminated(p)) {
			out = append(out, p.Namespace+"/"+name)
		}
	}
	return out
}

// isTerminated reports whether a Pod only waits to be removed: the kubelet is done with it, or it
// was force deleted.
func isTerminated(p *v1.Pod) bool {
	return p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
}

// FreedClaims returns the claims that a change of a Pod frees. The change may be the deletion of
// one Pod and the creation of another with the same name.
func FreedClaims(old, cur runtime.Object) []string {
	was, _ := old.(*v1.Pod)
	if was == nil {
		return nil
	}
	out := ClaimsUsedBy(was)
	if is, _ := cur.(*v1.Pod); is != nil && is.UID == was.UID {
		still := ClaimsUsedBy(is)
		out = slices.DeleteFunc(out, func(key string) bool { return slices.Contains(still, key) })
	}
	return out
}

type pvcProtection struct {
	controllerContext controllerruntime.ControllerContext
	list              corelisters.PersistentVolumeClaimLister
	pods              cache.Indexer // by claim
}

// NewPVCProtection returns the controller for claims.
func NewPVCProtection(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core := d.Informers.Core().V1()
	c := newPVCProtection(d)
	q := controllerruntime.NewQueue("pvcprotection", 1, c.processPVC)
	q.WatchByKey(core.PersistentVolumeClaims().Informer())
	q.Watch(core.Pods().Informer(), podEvent)
	return q
}

func newPVCProtection(d controllerruntime.ControllerContext) *pvcProtection {
	core := d.Informers.Core().V1()
	return &pvcProtection{d, core.PersistentVolumeClaims().Lister(), indexPods(core.Pods().Informer())}
}

func (c *pvcProtection) processPVC(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	claim, err := c.list.PersistentVolumeClaims(ns).Get(name)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	if written, err := c.syncUnused(ctx, claim); written || err != nil {
		return 0, err // what was written causes another sync
	}
	rest, has := without(claim.Finalizers, ClaimFinalizer)
	if claim.DeletionTimestamp == nil && !has {
		claim = claim.DeepCopy()
		claim.Finalizers = append(claim.Finalizers, ClaimFinalizer)
		return 0, c.update(ctx, claim)
	}
	if claim.DeletionTimestamp == nil || !has {
		return 0, nil
	}
	// From the API, not the cache: a Pod that was just bound must count.
	pods, err := c.livePods(ctx, ns)
	if err != nil {
		return 0, err
	}
	for _, p := range pods {
		if slices.Contains(ClaimsUsedBy(p), key) {
			return 0, nil // its end causes another sync
		}
	}
	claim = claim.DeepCopy()
	claim.Finalizers = rest
	return 0, c.update(ctx, claim)
}

func (c *pvcProtection) update(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	api := c.controllerContext.Client.CoreV1().PersistentVolumeClaims(claim.Namespace)
	_, err := api.Update(ctx, claim, metav1.UpdateOptions{})
	return controllerruntime.IgnoreNotFound(err)
}

type pvProtection struct {
	controllerContext controllerruntime.ControllerContext
	list              corelisters.PersistentVolumeLister
}

// NewPVProtection returns the controller for volumes.
func NewPVProtection(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core := d.Informers.Core().V1()
	c := &pvProtection{d, core.PersistentVolumes().Lister()}
	q := controllerruntime.NewQueue("pvprotection", 1, c.processPV)
	q.WatchByKey(core.PersistentVolumes().Informer())
	return q
}

func (c *pvProtection) processPV(ctx context.Context, key string) (time.Duration, error) {
	v, err := c.list.Get(key)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	rest, has := without(v.Finalizers, VolumeFinalizer)
	if v.DeletionTimestamp == nil && !has {
		rest = append(rest, VolumeFinalizer)
	} else if v.DeletionTimestamp == nil || !has || v.Status.Phase == v1.VolumeBound {
		return 0, nil
	}
	v = v.DeepCopy()
	v.Finalizers = rest
	_, err = c.controllerContext.Client.CoreV1().PersistentVolumes().Update(ctx, v, metav1.UpdateOptions{})
	return 0, controllerruntime.IgnoreNotFound(err)
}

type vacProtection struct {
	controllerContext controllerruntime.ControllerContext
	list              storagelisters.VolumeAttributesClassLister
	claims            corelisters.PersistentVolumeClaimLister
	volumes           corelisters.PersistentVolumeLister
}

// NewVACProtection returns the controller for VolumeAttributesClasses.
func NewVACProtection(d controllerruntime.ControllerContext) controllerruntime.Runner {
	core, store := d.Informers.Core().V1(), d.Informers.Storage().V1()
	c := &vacProtection{d, store.VolumeAttributesClasses().Lister(), core.PersistentVolumeClaims().Lister(),
		core.PersistentVolumes().Lister()}
	q := controllerruntime.NewQueue("vacprotection", 1, c.processVAC)
	q.WatchByKey(store.VolumeAttributesClasses().Informer())
	had := func(old, _ runtime.Object) []string { return ClassesOf(old) }
	q.Watch(core.PersistentVolumeClaims().Informer(), had)
	q.Watch(core.PersistentVolumes().Informer(), had)
	return q
}

// ClassesOf returns the VolumeAttributesClasses that a claim or volume has, wants, or is being
// given.
func ClassesOf(obj runtime.Object) []string {
	var names []*string
	switch obj := obj.(type) {
	case *v1.PersistentVolumeClaim:
		names = append(names, obj.Spec.VolumeAttributesClassName, obj.Status.CurrentVolumeAttributesClassName)
		if m := obj.Status.ModifyVolumeStatus; m != nil {
			names = append(names, &m.TargetVolumeAttributesClassName)
		}
	case *v1.PersistentVolume:
		names = append(names, obj.Spec.VolumeAttributesClassName)
	}
	var out []string
	for _, name := range names {
		if name != nil && *name != "" {
			out = append(out, *name)
		}
	}
	return out
}

func (c *vacProtection) processVAC(ctx context.Context, key string) (time.Duration, error) {
	class, err := c.list.Get(key)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	rest, has := without(class.Finalizers, ClassFinalizer)
	if class.DeletionTimestamp == nil && !has {
		return 0, c.update(ctx, class, append(rest, ClassFinalizer))
	}
	if class.DeletionTimestamp == nil || !has {
		return 0, nil
	}
	all, err := c.claims.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	for _, claim := range all {
		if slices.Contains(ClassesOf(claim), key) {
			return 0, nil
		}
	}
	volumes, err := c.volumes.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	for _, v := range volumes {
		if slices.Contains(ClassesOf(v), key) {
			return 0, nil
		}
	}
	return 0, c.update(ctx, class, rest)
}

func (c *vacProtection) update(ctx context.Context, class *storagev1.VolumeAttributesClass, finalizers []string) error {
	class = class.DeepCopy()
	class.Finalizers = finalizers
	api := c.controllerContext.Client.StorageV1().VolumeAttributesClasses()
	_, err := api.Update(ctx, class, metav1.UpdateOptions{})
	return controllerruntime.IgnoreNotFound(err)
}
