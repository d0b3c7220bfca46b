package persistentvolumebinder

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/gantry-project/gantry/internal/pod/csimigration"
)

// provisionerOf is who provisions for a class: the CSI driver that took its in-tree plugin over, or
// who the class names.
func provisionerOf(named string) string {
	if driver, migrated := csimigration.Driver(named); migrated {
		return driver
	}
	return named
}

// migratedClaim is the claim with the annotation that says which CSI driver has to provision for it
// what it asks of an in-tree plugin; nil when it is as it has to be.
func migratedClaim(c *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	plugin, ok := c.Annotations[volume.AnnStorageProvisioner]
	if !ok {
		plugin, ok = c.Annotations[volume.AnnBetaStorageProvisioner]
	}
	annotations := migratedTo(c.Annotations, plugin)
	if !ok || annotations == nil {
		return nil
	}
	d := c.DeepCopy()
	d.Annotations = annotations
	return d
}

// migratedVolume is the volume that an in-tree plugin provisioned with the annotation that says
// which CSI driver deletes it, and without the finalizer of the plugin; nil when it is so.
func migratedVolume(v *v1.PersistentVolume) *v1.PersistentVolume {
	plugin, ok := v.Annotations[volume.AnnDynamicallyProvisioned]
	if !ok {
		return nil
	}
	_, migrated := csimigration.Driver(plugin)
	annotations := migratedTo(v.Annotations, plugin)
	held := migrated && slices.Contains(v.Finalizers, volume.PVDeletionInTreeProtectionFinalizer)
	if annotations == nil && !held {
		return nil
	}
	d := v.DeepCopy()
	if annotations != nil {
		d.Annotations = annotations
	}
	if held {
		d.Finalizers = slices.DeleteFunc(d.Finalizers,
			func(f string) bool { return f == volume.PVDeletionInTreeProtectionFinalizer })
	}
	return d
}

// migratedTo is a copy of annotations with the driver that took the plugin over, or without any
// when none did; nil when they are so.
func migratedTo(annotations map[string]string, plugin string) map[string]string {
	driver, migrated := csimigration.Driver(plugin)
	said, has := annotations[volume.AnnMigratedTo]
	if migrated && said == driver || !migrated && (!has || said == "") {
		return nil
	}
	out := maps.Clone(annotations)
	delete(out, volume.AnnMigratedTo)
	if migrated {
		out[volume.AnnMigratedTo] = driver
	}
	return out
}

// isMigrated tells of a volume that its CSI driver's provisioner releases.
func isMigrated(v *v1.PersistentVolume) bool {
	return metav1.HasAnnotation(v.ObjectMeta, volume.AnnMigratedTo) && v.Annotations[volume.AnnMigratedTo] != ""
}
