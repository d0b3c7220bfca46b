// Package configmap makes configMap volumes: each key of a ConfigMap, or each item asked for, as a
// file that follows the object.
//
// In: the ConfigMap from the object cache. Out: files, replaced all at once when the object
// changes.
package configmap

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/atomicwriter"
)

// New returns the type configMap.
func New(m volume.Mounter, o volume.Objects) atomicwriter.Plugin {
	read := func(ctx context.Context, a volume.MounterArgs) (volume.Payload, error) {
		s := a.Spec.Volume.ConfigMap
		return Read(ctx, o, a.Pod.Namespace, volume.Source{Name: s.Name, Items: s.Items,
			Mode:     ptr.Deref(s.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode),
			Optional: ptr.Deref(s.Optional, false)})
	}
	return atomicwriter.NewPlugin(m, atomicwriter.PluginOptions{Name: "configMap", Dir: "kubernetes.io~configmap",
		Read: read})
}

// Read makes the files of a ConfigMap. With Optional an object or key that is not there gives no
// files.
func Read(ctx context.Context, o volume.Objects, namespace string, s volume.Source) (volume.Payload, error) {
	c, err := o.GetConfigMap(ctx, namespace, s.Name)
	if err != nil {
		if !s.Optional || !apierrors.IsNotFound(err) {
			return nil, err
		}
		c = &v1.ConfigMap{}
	}
	return s.Keys(volume.ConfigData(c), volume.MissingConfigKey)
}
