// Package csimigration translates volumes of the in-tree plugins that CSI drivers took over:
// awsElasticBlockStore, azureDisk, azureFile, cinder, gcePersistentDisk, portworxVolume and
// vsphereVolume.
//
// In: PersistentVolumes, volumes of Pods, names of plugins, as the API has them. Out: what their
// CSI driver is asked for, by the rules of k8s.io/csi-translation-lib. API objects stay as they
// are. As of v1.37 no feature gate and no node decides: all of them are migrated everywhere.
package csimigration

import (
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
)

// Plugins are the in-tree plugins that are migrated, in the order of their names.
func Plugins() []string {
	return []string{"kubernetes.io/aws-ebs", "kubernetes.io/azure-disk", "kubernetes.io/azure-file",
		"kubernetes.io/cinder", "kubernetes.io/gce-pd", "kubernetes.io/portworx-volume",
		"kubernetes.io/vsphere-volume"}
}

// Driver is the CSI driver that took a plugin over; false for names that are no plugin's.
func Driver(plugin string) (name string, migrated bool) {
	name, err := csitranslation.New().GetCSINameFromInTreeName(plugin)
	return name, err == nil
}

// Plugin is the plugin of a PersistentVolume; false when it is none that is migrated.
func Plugin(v *v1.PersistentVolume) (name string, migrated bool) {
	lib := csitranslation.New()
	if !lib.IsPVMigratable(v) {
		return "", false
	}
	name, err := lib.GetInTreePluginNameFromSpec(v, nil)
	return name, err == nil
}

// PersistentVolume is the volume as its CSI driver sees it, which is the volume itself unless its
// plugin is migrated.
func PersistentVolume(v *v1.PersistentVolume) (out *v1.PersistentVolume, migrated bool, err error) {
	lib := csitranslation.New()
	if !lib.IsPVMigratable(v) {
		return v, false, nil
	}
	if out, err = lib.TranslateInTreePVToCSI(logr.Discard(), v); err != nil {
		return nil, true, fmt.Errorf("failed to translate in-tree pv to CSI: %w", err)
	}
	return out, true, nil
}

// IsInline tells whether a Pod's volume names a plugin that is migrated.
func IsInline(v *v1.Volume) bool { return csitranslation.New().IsInlineMigratable(v) }

// Inline is what stands for a Pod's volume that IsInline: a PersistentVolume that is no API object.
func Inline(v *v1.Volume, namespace string) (*v1.PersistentVolume, error) {
	out, err := csitranslation.New().TranslateInTreeInlineVolumeToCSI(logr.Discard(), v, namespace)
	if err != nil {
		return nil, fmt.Errorf("failed to translate in-tree pv to CSI: %w", err)
	}
	return out, nil
}
