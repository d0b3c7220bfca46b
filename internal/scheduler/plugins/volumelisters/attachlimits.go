package volumelisters

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"

	"github.com/gantry-project/gantry/internal/pod"
)

// AttachedVolume is a volume as its CSI driver knows it. For one that is yet to be made, ID is the
// claim's name.
type AttachedVolume struct{ Driver, ID string }

// LimitOf is how many volumes of a driver can be attached to a node; false when nothing says so.
func LimitOf(n *storagev1.CSINode, driver string) (int, bool) {
	if n == nil {
		return 0, false
	}
	for i := range n.Spec.Drivers {
		d := &n.Spec.Drivers[i]
		if d.Name == driver && d.Allocatable != nil && d.Allocatable.Count != nil {
			return int(*d.Allocatable.Count), true
		}
	}
	return 0, false
}

// nodeWithAllMigrated is a node whose drivers took all in-tree plugins over.
var nodeWithAllMigrated = &storagev1.CSINode{
	ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{v1.MigratedPluginsAnnotationKey: strings.Join(migratedPlugins, ",")}}}

// MaxVolumesByDriver counts, by driver, the volumes that a Pod may need attached on some node:
// never fewer than VolumesToAttach gives for any node.
func MaxVolumesByDriver(f Listers, p *v1.Pod) map[string]int {
	all := VolumesToAttach(f, p, nodeWithAllMigrated)
	maps.Copy(all, VolumesToAttach(f, p, nil))
	out := map[string]int{}
	for h := range all {
		out[h.Driver]++
	}
	return out
}

// IsReachableFromAllNodes tells whether a volume can follow a Pod to every node, whichever plugins
// drivers took over there.
func IsReachableFromAllNodes(v *v1.PersistentVolume) bool {
	as, err := TranslateInTree(v, nodeWithAllMigrated)
	return err == nil && v.Spec.NodeAffinity == nil && as.Spec.NodeAffinity == nil
}

// MayNeedAttach tells whether a volume of a Pod may need to be attached by a CSI driver.
func MayNeedAttach(p *v1.Pod, v *v1.Volume) bool {
	name, _ := pod.ClaimName(p, v)
	return name != "" || csitranslation.New().IsInlineMigratable(v)
}

// VolumesToAttach gives the volumes that a Pod needs attached on a node, each once. What cannot be
// looked up does not count.
func VolumesToAttach(f Listers, p *v1.Pod, node *storagev1.CSINode) map[AttachedVolume]bool {
	out := map[AttachedVolume]bool{}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		name, _ := pod.ClaimName(p, v)
		if name == "" {
			if h, ok := inline(p, v, node); ok {
				out[h] = true
			}
			continue
		}
		c, err := f.Claim(p.Namespace, name)
		if err != nil {
			continue
		}
		if c.Spec.VolumeName != "" {
			if pv, err := f.Volume(c.Spec.VolumeName); err == nil {
				if h, ok := AttachedVolumeOf(pv, node); ok {
					out[h] = true
				}
				continue
			}
		}
		if class, err := f.Class(volume.GetPersistentVolumeClaimClass(c)); err == nil {
			out[AttachedVolume{driverOf(class.Provisioner, node), "claim/" + c.Namespace + "/" + c.Name}] = true
		}
	}
	return out
}

func inline(p *v1.Pod, v *v1.Volume, node *storagev1.CSINode) (AttachedVolume, bool) {
	lib := csitranslation.New()
	if !lib.IsInlineMigratable(v) {
		return AttachedVolume{}, false
	}
	plugin, err := lib.GetInTreePluginNameFromSpec(nil, v)
	if err != nil || !isMigrated(plugin, node) {
		return AttachedVolume{}, false
	}
	pv, err := lib.TranslateInTreeInlineVolumeToCSI(logr.Discard(), v, p.Namespace)
	if err != nil || pv.Spec.CSI == nil {
		return AttachedVolume{}, false
	}
	return AttachedVolume{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}, true
}

// AttachedVolumeOf gives a volume's driver and handle; false when no CSI driver serves it.
func AttachedVolumeOf(v *v1.PersistentVolume, node *storagev1.CSINode) (AttachedVolume, bool) {
	v, err := TranslateInTree(v, node)
	if err != nil || v.Spec.CSI == nil {
		return AttachedVolume{}, false
	}
	return AttachedVolume{v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle}, true
}

// driverOf is the driver that a provisioner's volumes are attached by.
func driverOf(provisioner string, node *storagev1.CSINode) string {
	if !slices.Contains(migratedPlugins, provisioner) || !isMigrated(provisioner, node) {
		return provisioner
	}
	if name, err := csitranslation.New().GetCSINameFromInTreeName(provisioner); err == nil {
		return name
	}
	return provisioner
}
