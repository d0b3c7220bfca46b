package volumelisters

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"

	"github.com/gantry-project/gantry/internal/pod"
)

// Uses tells whether a Pod uses the claim.
func Uses(p *v1.Pod, c *v1.PersistentVolumeClaim) bool {
	if p.Namespace != c.Namespace {
		return false
	}
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
		name, _ := pod.ClaimName(p, &v)
		return name == c.Name
	})
}

// Claims gives the claims of a Pod. The error, in upstream's words, is of the first that is
// missing, lost, on its way out, or another Pod's.
func Claims(f Listers, p *v1.Pod) ([]*v1.PersistentVolumeClaim, error) {
	var out []*v1.PersistentVolumeClaim
	for i := range p.Spec.Volumes {
		name, made := pod.ClaimName(p, &p.Spec.Volumes[i])
		if name == "" {
			continue
		}
		c, err := f.Claim(p.Namespace, name)
		switch {
		case made && apierrors.IsNotFound(err):
			return nil, fmt.Errorf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q",
				name)
		case err != nil:
			return nil, err
		case c.Status.Phase == v1.ClaimLost:
			return nil, fmt.Errorf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", c.Name,
				c.Spec.VolumeName)
		case c.DeletionTimestamp != nil:
			return nil, fmt.Errorf("persistentvolumeclaim %q is being deleted", c.Name)
		}
		if made {
			if err := ephemeral.VolumeIsForPod(p, c); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// FullyBound tells whether claim and volume have found each other for good.
func FullyBound(c *v1.PersistentVolumeClaim) bool {
	return c.Spec.VolumeName != "" && metav1.HasAnnotation(c.ObjectMeta, volume.AnnBindCompleted)
}

// WaitingClass is the claim's class when it has a volume chosen for the claim's first Pod, and nil
// when it does not wait for one, or is not there.
func WaitingClass(f Listers, c *v1.PersistentVolumeClaim) (*storagev1.StorageClass, error) {
	name := volume.GetPersistentVolumeClaimClass(c)
	if name == "" {
		return nil, nil
	}
	class, err := f.Class(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if class.VolumeBindingMode == nil {
		return nil, fmt.Errorf("VolumeBindingMode not set for StorageClass %q", name)
	}
	if *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return nil, nil
	}
	return class, nil
}

// migratedPlugins in-tree plugins whose volumes a CSI driver serves, as of v1.37 without conditions
// of a feature gate.
var migratedPlugins = []string{"kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/azure-disk",
	"kubernetes.io/cinder", "kubernetes.io/portworx-volume"}

// TranslateInTree is a volume as the CSI driver sees it that took its in-tree plugin over on the
// node, or the volume itself.
func TranslateInTree(v *v1.PersistentVolume, node *storagev1.CSINode) (*v1.PersistentVolume, error) {
	lib := csitranslation.New()
	if !lib.IsPVMigratable(v) {
		return v, nil
	}
	plugin, err := lib.GetInTreePluginNameFromSpec(v, nil)
	if err != nil {
		return nil, fmt.Errorf("could not get plugin name from pv: %w", err)
	}
	if !isMigrated(plugin, node) {
		return v, nil
	}
	out, err := lib.TranslateInTreePVToCSI(logr.Discard(), v)
	if err != nil {
		return nil, fmt.Errorf("could not translate pv: %w", err)
	}
	return out, nil
}

func isMigrated(plugin string, node *storagev1.CSINode) bool {
	if node == nil || !slices.Contains(migratedPlugins, plugin) {
		return false
	}
	return slices.Contains(strings.Split(node.Annotations[v1.MigratedPluginsAnnotationKey], ","), plugin)
}
