package persistentvolumebinder

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// row: CSI-15
// A class of an in-tree plugin has its CSI driver provision, and what the plugin was asked for, or
// provisioned, is the driver's.
func TestInTreeProvisionersAreMigrated(t *testing.T) {
	const ebs, driver = "kubernetes.io/aws-ebs", "ebs.csi.aws.com"
	class := "gold"
	claim := func(annotations map[string]string) *v1.PersistentVolumeClaim {
		return &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns", UID: "u",
			Annotations: annotations}, Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class,
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}}}
	}
	in := In{Class: &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: ebs}}
	for name, c := range map[string]struct {
		claim *v1.PersistentVolumeClaim
		want  map[string]string // annotations that are written; nil: none are
	}{
		"new": {claim(nil), map[string]string{volume.AnnStorageProvisioner: driver,
			volume.AnnBetaStorageProvisioner: driver}},
		"asked of the driver": {claim(map[string]string{volume.AnnStorageProvisioner: driver}), nil},
		"asked of the plugin": {claim(map[string]string{volume.AnnStorageProvisioner: ebs}), map[string]string{
			volume.AnnStorageProvisioner: ebs, volume.AnnMigratedTo: driver}},
		"asked of the plugin, by its old annotation": {claim(map[string]string{volume.AnnBetaStorageProvisioner: ebs}),
			map[string]string{volume.AnnBetaStorageProvisioner: ebs, volume.AnnMigratedTo: driver}},
		"migrated to what did not take it over": {claim(map[string]string{volume.AnnStorageProvisioner: "own.example",
			volume.AnnMigratedTo: driver}), map[string]string{volume.AnnStorageProvisioner: "own.example"}},
	} {
		s := ForClaim(c.claim, in)
		var got map[string]string
		if s.Claim != nil {
			got = s.Claim.Annotations
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: got the annotations %v, want %v", name, got, c.want)
		}
	}
	pv := func(plugin, to string, finalizers ...string) *v1.PersistentVolume {
		v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Finalizers: finalizers,
			Annotations: map[string]string{volume.AnnDynamicallyProvisioned: plugin}},
			Spec: v1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRecycle,
				ClaimRef: &v1.ObjectReference{Namespace: "ns", Name: "c", UID: "u"}},
			Status: v1.PersistentVolumeStatus{Phase: v1.VolumeReleased}}
		if to != "" {
			v.Annotations[volume.AnnMigratedTo] = to
		}
		return v
	}
	gone := In{Claim: func(string, string) *v1.PersistentVolumeClaim { return nil }}
	s := ForVolume(pv(ebs, "", volume.PVDeletionInTreeProtectionFinalizer, "own"), gone)
	if s.Volume == nil || s.Volume.Annotations[volume.AnnMigratedTo] != driver ||
		!slices.Equal(s.Volume.Finalizers, []string{"own"}) {
		t.Errorf("got %+v, want the volume migrated to its driver and without the plugin's finalizer", s.Volume)
	}
	s = ForVolume(pv("own.example", driver), gone)
	if s.Volume == nil || s.Volume.Annotations[volume.AnnMigratedTo] != "" {
		t.Errorf("got %+v, want the volume without a driver that did not take its plugin over", s.Volume)
	}
	if s := ForVolume(pv(ebs, driver), gone); s.Volume != nil || s.VolumeStatus != nil || s.Reason != "" {
		t.Errorf("got %+v for a volume that its driver's provisioner releases, want nothing", s)
	}
}
