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

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/atomicwriter"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

// Plugin is configMap.
type Plugin struct {
	Mounts  volume.Mounter
	Objects volume.Objects
}

// Name is the field of v1.VolumeSource.
func (Plugin) Name() string { return "configMap" }

// Dir is the plugin's directory.
func (Plugin) Dir() string { return "kubernetes.io~configmap" }

// RequiresRemount is true: the files follow the object.
func (Plugin) RequiresRemount(volume.Spec) bool { return true }

// SetUp writes the files.
func (t Plugin) SetUp(ctx context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	s := a.Spec.Volume.ConfigMap
	mode := v1.ConfigMapVolumeSourceDefaultMode
	if s.DefaultMode != nil {
		mode = *s.DefaultMode
	}
	p, err := Read(ctx, t.Objects, a.Pod.Namespace, volume.Source{Name: s.Name, Items: s.Items, Mode: mode,
		Optional: s.Optional != nil && *s.Optional})
	if err != nil {
		return volume.Mounted{}, err
	}
	if err := atomicwriter.WriteVolume(t.Mounts, a, false, p); err != nil {
		return volume.Mounted{}, err
	}
	return volume.Mounted{Path: a.Dir, ReadOnly: true,
		Size: volume.SizeOfFiles}, nil
}

// TearDown removes the directory.
func (t Plugin) TearDown(_ context.Context, a volume.UnmounterArgs) error {
	return volumedir.Remove(t.Mounts, a.Dir)
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
