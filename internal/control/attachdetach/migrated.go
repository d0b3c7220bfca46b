package attachdetach

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod/csimigration"
)

// podsByInline is the index of Pods by the names of volumes of theirs that have no claim, and name
// an in-tree plugin that a CSI driver took over.
const podsByInline = "attachdetachInline"

// inlinePrefix begins the queue keys of such volumes: their names in the statuses of nodes. No
// PersistentVolume is called so.
const inlinePrefix = "kubernetes.io/csi/"

// inlineVolumes are what stands for such volumes of a Pod, by name. One that cannot be translated
// is the kubelet's to tell of.
func inlineVolumes(o any) map[string]*v1.PersistentVolume {
	pod, ok := o.(*v1.Pod)
	if !ok {
		return nil
	}
	var out map[string]*v1.PersistentVolume
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; csimigration.IsInline(v) {
			if pv, err := csimigration.Inline(v, pod.Namespace); err == nil && pv.Spec.CSI != nil {
				if out == nil {
					out = map[string]*v1.PersistentVolume{}
				}
				out[string(UniqueVolumeName(pv))] = pv
			}
		}
	}
	return out
}

// inlineOf is the key of the volume without PersistentVolume that an attachment is of; empty for
// others.
func inlineOf(a *storagev1.VolumeAttachment) string {
	spec := a.Spec.Source.InlineVolumeSpec
	if spec == nil || spec.CSI == nil {
		return ""
	}
	return string(UniqueVolumeName(&v1.PersistentVolume{Spec: *spec}))
}

// findVolume is a volume as its CSI driver sees it.
func (c *controller) findVolume(name string) (v *v1.PersistentVolume, migrated bool, err error) {
	if v, err = c.volumes.Get(name); err != nil {
		return nil, false, err
	}
	return csimigration.PersistentVolume(v)
}

// addInline adds the Pods that have a volume without PersistentVolume, and what stands for it: as
// one of them has it, or, while it is still attached, as its attachment says.
func (c *controller) addInline(in *In, key string) error {
	found, err := c.pods.ByIndex(podsByInline, key)
	if err != nil {
		return err
	}
	in.Inline, in.Migrated = true, true
	for _, o := range found {
		in.Pods = append(in.Pods, o.(*v1.Pod))
		in.Volume = inlineVolumes(o)[key]
	}
	if in.Volume == nil && len(in.Attachments) > 0 {
		in.Volume = &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: strings.TrimPrefix(key, inlinePrefix)},
			Spec: *in.Attachments[0].Spec.Source.InlineVolumeSpec}
	}
	in.Attachable = in.Volume != nil && c.attaches(in.Volume.Spec.CSI.Driver)
	return nil
}
