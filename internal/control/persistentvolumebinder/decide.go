package persistentvolumebinder

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// In is what the binder reads besides the object itself.
type In struct {
	Volumes map[string]*v1.PersistentVolume                 // all, by name
	Ordered []*v1.PersistentVolume                          // the same, sorted by name
	Class   *storagev1.StorageClass                         // of the claim; nil: it does not exist
	Default *storagev1.StorageClass                         // of claims that name none; nil: there is none
	Claim   func(ns, name string) *v1.PersistentVolumeClaim // nil: it does not exist
	Waiting []string                                        // Pods that use the claim and are not scheduled, by name
}

// Step is the next thing to do for a claim or volume: at most one write, and an event. The write's
// watch event causes the next step.
type Step struct {
	Volume       *v1.PersistentVolume      // spec and metadata to write
	VolumeStatus *v1.PersistentVolume      // status to write
	Claim        *v1.PersistentVolumeClaim // spec and metadata to write
	ClaimStatus  *v1.PersistentVolumeClaim // status to write

	EventType, Reason, Message string // an event about the object; empty Reason: none
	Begins                     string // operation of a provisioner that begins with the step, if it has not
}

func eventStep(kind, reason, message string) Step {
	return Step{EventType: kind, Reason: reason, Message: message}
}

// ForClaim returns the next step for a claim.
func ForClaim(c *v1.PersistentVolumeClaim, in In) Step {
	if d := migratedClaim(c); d != nil {
		return Step{Claim: d}
	}
	completed := metav1.HasAnnotation(c.ObjectMeta, volume.AnnBindCompleted)
	v := in.Volumes[c.Spec.VolumeName]
	switch {
	case completed && c.Spec.VolumeName == "":
		return lostClaim(c, "ClaimLost",
			"Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	case completed && v == nil:
		return lostClaim(c, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case completed && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != c.UID:
		return lostClaim(c, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
	case completed:
		return bindVolume(v, c)
	case c.Spec.VolumeName == "":
		return syncUnboundClaim(c, in)
	case v == nil:
		return Step{} // it may be created later
	case v.Spec.ClaimRef == nil:
		if why := bindingMismatch(v, c); why != "" {
			return eventStep(v1.EventTypeWarning,
				"VolumeMismatch", fmt.Sprintf("Cannot bind to requested volume %q: %s", v.Name, why))
		}
		return bindVolume(v, c)
	case volume.IsVolumeBoundToClaim(v, c):
		return bindVolume(v, c)
	}
	return eventStep(v1.EventTypeWarning, "FailedBinding", fmt.Sprintf("volume %q already bound to a different claim.",
		v.Name))
}

func lostClaim(c *v1.PersistentVolumeClaim, reason, message string) Step {
	if c.Status.Phase == v1.ClaimLost {
		return Step{}
	}
	s := eventStep(v1.EventTypeWarning, reason, message)
	s.ClaimStatus = c.DeepCopy()
	s.ClaimStatus.Status.Phase, s.ClaimStatus.Status.AccessModes, s.ClaimStatus.Status.Capacity = v1.ClaimLost, nil, nil
	return s
}

// bindingMismatch returns why a volume that a claim names cannot serve it; empty if it can.
func bindingMismatch(v *v1.PersistentVolume, c *v1.PersistentVolumeClaim) string {
	want, have := c.Spec.Resources.Requests[v1.ResourceStorage], v.Spec.Capacity[v1.ResourceStorage]
	switch {
	case v.DeletionTimestamp != nil:
		return fmt.Sprintf("the volume is marked for deletion %q", v.Name)
	case have.Cmp(want) < 0:
		return "requested PV is too small"
	case volume.GetPersistentVolumeClass(v) != volume.GetPersistentVolumeClaimClass(c):
		return "storageClassName does not match"
	case ptr.Deref(v.Spec.VolumeAttributesClassName, "") != ptr.Deref(c.Spec.VolumeAttributesClassName, ""):
		return "volumeAttributesClassName does not match"
	case volume.CheckVolumeModeMismatches(&c.Spec, &v.Spec):
		return "incompatible volumeMode"
	case !volume.CheckAccessModes(c, v):
		return "incompatible accessMode"
	}
	return ""
}

// syncUnboundClaim finds a volume for a claim that names none, or requests provisioning.
func syncUnboundClaim(c *v1.PersistentVolumeClaim, in In) Step {
	var candidates []*v1.PersistentVolume
	for _, v := range in.Ordered {
		if v.Spec.ClaimRef != nil && volume.IsVolumeBoundToClaim(v, c) || volume.CheckAccessModes(c, v) {
			candidates = append(candidates, v)
		}
	}
	waits := in.Class != nil && in.Class.VolumeBindingMode != nil &&
		*in.Class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	v, err := volume.FindMatchingVolume(c, candidates, nil, nil, waits, true)
	class := volume.GetPersistentVolumeClaimClass(c)
	switch {
	case err != nil:
		return eventStep(v1.EventTypeWarning, "FailedBinding", err.Error())
	case v != nil:
		return bindVolume(v, c)
	}
	if s, ok := withDefaultClass(c, in); ok {
		return s
	}
	switch {
	case waits && !volume.IsDelayBindingProvisioning(c):
		return waitForPod(in.Waiting)
	case class == "":
		return eventStep(v1.EventTypeNormal, "FailedBinding",
			"no persistent volumes available for this claim and no storage class is set")
	case in.Class == nil:
		return eventStep(v1.EventTypeWarning,
			"ProvisioningFailed", fmt.Sprintf("storageclass.storage.k8s.io %q not found", class))
	case in.Class.Provisioner == volume.NotSupportedProvisioner:
		return eventStep(v1.EventTypeWarning, "ProvisioningFailed", fmt.Sprintf("no volume plugin matched name: %s",
			in.Class.Provisioner))
	}
	return provisionClaim(c, provisionerOf(in.Class.Provisioner))
}

// waitForPod says whom a claim waits for: Pods that are not scheduled, or any at all.
func waitForPod(pods []string) Step {
	switch len(pods) {
	case 0:
		return eventStep(v1.EventTypeNormal, "WaitForFirstConsumer",
			"waiting for first consumer to be created before binding")
	case 1:
		return eventStep(v1.EventTypeNormal, "WaitForPodScheduled", fmt.Sprintf("waiting for pod %s to be scheduled",
			pods[0]))
	}
	return eventStep(v1.EventTypeNormal, "WaitForPodScheduled", fmt.Sprintf("waiting for pods %s to be scheduled",
		strings.Join(pods, ",")))
}

// provisionClaim requests a volume from an external provisioner.
func provisionClaim(c *v1.PersistentVolumeClaim, provisioner string) Step {
	s := eventStep(v1.EventTypeNormal,
		"ExternalProvisioning",
		fmt.Sprintf("Waiting for a volume to be created either by the external provisioner '%s' or manually by the "+
			"system administrator. If volume creation is delayed, please verify that the provisioner is running and "+
			"correctly registered.", provisioner))
	s.Begins = provision
	if c.Annotations[volume.AnnStorageProvisioner] != provisioner {
		s.Claim = c.DeepCopy()
		metav1.SetMetaDataAnnotation(&s.Claim.ObjectMeta, volume.AnnBetaStorageProvisioner, provisioner)
		metav1.SetMetaDataAnnotation(&s.Claim.ObjectMeta, volume.AnnStorageProvisioner, provisioner)
		if d := migratedClaim(s.Claim); d != nil {
			s.Claim = d
		}
	}
	return s
}

// bindVolume returns the next write that binds a volume and a claim: the volume first, so that no
// other claim gets it.
func bindVolume(v *v1.PersistentVolume, c *v1.PersistentVolumeClaim) Step {
	changed, dirty, err := volume.GetBindVolumeToClaim(v, c)
	switch {
	case err != nil:
		return eventStep(v1.EventTypeWarning, "FailedBinding", err.Error())
	case dirty:
		return Step{Volume: changed}
	case v.Status.Phase != v1.VolumeBound:
		return Step{VolumeStatus: withPhase(v, v1.VolumeBound, "")}
	case c.Spec.VolumeName != v.Name || !metav1.HasAnnotation(c.ObjectMeta, volume.AnnBindCompleted):
		d := c.DeepCopy()
		if d.Spec.VolumeName == "" {
			d.Spec.VolumeName = v.Name
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, volume.AnnBoundByController, "yes")
		}
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, volume.AnnBindCompleted, "yes")
		return Step{Claim: d}
	case c.Status.Phase != v1.ClaimBound:
		d := c.DeepCopy()
		d.Status.Phase, d.Status.AccessModes = v1.ClaimBound, v.Spec.AccessModes
		d.Status.Capacity = v1.ResourceList{v1.ResourceStorage: v.Spec.Capacity[v1.ResourceStorage]}
		d.Status.CurrentVolumeAttributesClassName = v.Spec.VolumeAttributesClassName
		return Step{ClaimStatus: d}
	}
	return Step{}
}

func withPhase(v *v1.PersistentVolume, phase v1.PersistentVolumePhase, message string) *v1.PersistentVolume {
	d := v.DeepCopy()
	d.Status.Phase, d.Status.Message = phase, message
	return d
}

// ForVolume returns the next step for a volume: it is available, bound, or its claim is gone. A
// volume that is being deleted is processed as well: its protection ends with the phase Bound.
func ForVolume(v *v1.PersistentVolume, in In) Step {
	if d := migratedVolume(v); d != nil {
		return Step{Volume: d}
	}
	ref := v.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		if v.Status.Phase == v1.VolumeAvailable {
			return Step{}
		}
		return Step{VolumeStatus: withPhase(v, v1.VolumeAvailable, "")}
	}
	c := in.Claim(ref.Namespace, ref.Name)
	switch {
	case c == nil || c.UID != ref.UID:
		return release(v)
	case c.Spec.VolumeName == "" || c.Spec.VolumeName == v.Name:
		return Step{} // the claim's steps continue
	case metav1.HasAnnotation(v.ObjectMeta, volume.AnnDynamicallyProvisioned) &&
		v.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete:
		return release(v)
	}
	d := v.DeepCopy() // the claim is bound to another volume
	if metav1.HasAnnotation(d.ObjectMeta, volume.AnnBoundByController) {
		d.Spec.ClaimRef = nil
		delete(d.Annotations, volume.AnnBoundByController)
	} else {
		d.Spec.ClaimRef.UID = ""
	}
	return Step{Volume: d}
}

// release marks a volume whose claim is gone as Released and handles its reclaim policy: Retain
// keeps it, an external provisioner deletes its own. No plugin deletes or recycles other volumes,
// which an event says.
func release(v *v1.PersistentVolume) Step {
	switch {
	case v.Status.Phase == v1.VolumeFailed:
		return Step{}
	case v.Status.Phase != v1.VolumeReleased:
		return Step{VolumeStatus: withPhase(v, v1.VolumeReleased, "")}
	case v.DeletionTimestamp != nil:
		return Step{} // it is being deleted
	case isMigrated(v):
		return Step{Begins: deletion}
	}
	fail := func(reason, message string) Step {
		s := eventStep(v1.EventTypeWarning, reason, message)
		s.VolumeStatus = withPhase(v, v1.VolumeFailed, message)
		return s
	}
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case v1.PersistentVolumeReclaimDelete:
		if v.Spec.CSI != nil || metav1.HasAnnotation(v.ObjectMeta, volume.AnnDynamicallyProvisioned) {
			return Step{Begins: deletion}
		}
		s := fail(failedDeletion,
			fmt.Sprintf("error getting deleter volume plugin for volume %q: no deletable volume plugin matched",
				v.Name))
		s.Begins = deletion
		return s
	case v1.PersistentVolumeReclaimRecycle:
		return fail("VolumeFailedRecycle", "No recycler plugin found for the volume!")
	}
	return Step{}
}
