// Package secret makes secret volumes: each key of a Secret, or each item asked for, as a file that
// follows the object.
//
// In: the Secret from the object cache. Out: files in memory, replaced all at once when the object
// changes.
package secret

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/atomicwriter"
)

// New returns the type secret.
func New(m volume.Mounter, o volume.Objects) atomicwriter.Plugin {
	read := func(ctx context.Context, a volume.MounterArgs) (volume.Payload, error) {
		s := a.Spec.Volume.Secret
		return Read(ctx, o, a.Pod.Namespace, volume.Source{Name: s.SecretName, Items: s.Items,
			Mode: ptr.Deref(s.DefaultMode, v1.SecretVolumeSourceDefaultMode), Optional: ptr.Deref(s.Optional, false)})
	}
	return atomicwriter.NewPlugin(m, atomicwriter.PluginOptions{Name: "secret", Dir: "kubernetes.io~secret",
		Memory: true, Read: read})
}

// Read makes the files of a Secret. With Optional an object or key that is not there gives no
// files.
func Read(ctx context.Context, o volume.Objects, namespace string, s volume.Source) (volume.Payload, error) {
	c, err := o.GetSecret(ctx, namespace, s.Name)
	if err != nil {
		if !s.Optional || !apierrors.IsNotFound(err) {
			return nil, err
		}
		c = &v1.Secret{}
	}
	return s.Keys(c.Data, volume.MissingSecretKey)
}
