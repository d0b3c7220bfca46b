// Package image serves image volumes: the content of an OCI image, read-only.
//
// Chapter: furnished. In: reference and pull policy. Out: the reference to pull and to give to the runtime, which mounts it; nothing lies below the Pod's directory.
package image

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Type is image.
type Type struct{}

// Name is the field of v1.VolumeSource.
func (Type) Name() string { return "image" }

// Dir is empty.
func (Type) Dir() string { return "" }

// Owns tells whether the volume is an image.
func (Type) Owns(v *v1.Volume) bool { return v.Image != nil }

// Refreshes is false: an image volume keeps its content for the life of the container.
func (Type) Refreshes() bool { return false }

// SetUp names the image; pulling it is image/pull's part.
func (t Type) SetUp(_ context.Context, a volume.Ask) (volume.Mounted, error) {
	i := a.Volume.Image
	return volume.Mounted{Name: a.Volume.Name, Type: t.Name(), Image: i.Reference, Pull: i.PullPolicy, ReadOnly: true}, nil
}

// TearDown does nothing.
func (Type) TearDown(context.Context, string) error { return nil }
