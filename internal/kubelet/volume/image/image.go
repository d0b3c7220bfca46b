// Package image serves image volumes: the content of an OCI image, read-only.
//
// In: reference and pull policy. Out: the reference to pull and to give to the runtime, which
// mounts it; nothing lies below the Pod's directory.
package image

import (
	"context"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Plugin is image.
type Plugin struct{}

// Name is the field of v1.VolumeSource.
func (Plugin) Name() string { return "image" }

// Dir is empty.
func (Plugin) Dir() string { return "" }

// RequiresRemount is false: an image volume keeps its content for the life of the container.
func (Plugin) RequiresRemount(volume.Spec) bool { return false }

// SetUp names the image; pulling it is image/pull's part.
func (Plugin) SetUp(_ context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	i := a.Spec.Volume.Image
	return volume.Mounted{Image: i.Reference, PullPolicy: i.PullPolicy,
		ReadOnly: true}, nil
}

// TearDown does nothing.
func (Plugin) TearDown(context.Context, volume.UnmounterArgs) error { return nil }
