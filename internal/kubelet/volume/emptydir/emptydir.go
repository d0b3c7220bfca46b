// Package emptydir makes emptyDir volumes: a directory, or a tmpfs, that lives as long as the Pod does on the node.
//
// Chapter: furnished. In: medium, sizeLimit. Out: an empty directory every user of the Pod may write to, the same one after a restart of a container or of the kubelet.
package emptydir

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/own"
	"github.com/gantry-project/gantry/internal/kubelet/volume/tidy"
)

// Type is emptyDir.
type Type struct{ Mounts volume.Mounts }

// Name is the field of v1.VolumeSource.
func (Type) Name() string { return "emptyDir" }

// Dir is the plugin's directory.
func (Type) Dir() string { return "kubernetes.io~empty-dir" }

// Owns tells whether the volume is an emptyDir. A volume without any source is one too.
func (Type) Owns(v *v1.Volume) bool { return v.EmptyDir != nil || v.VolumeSource == v1.VolumeSource{} }

// Refreshes is false: what is in the volume is the Pod's.
func (Type) Refreshes() bool { return false }

// SetUp makes the directory.
func (t Type) SetUp(_ context.Context, a volume.Ask) (volume.Mounted, error) {
	e := a.Volume.EmptyDir
	if e == nil {
		e = &v1.EmptyDirVolumeSource{}
	}
	memory := false
	switch e.Medium {
	case v1.StorageMediumDefault:
	case v1.StorageMediumMemory:
		memory = true
	default:
		return volume.Mounted{}, fmt.Errorf("emptyDir medium %q is not supported by this node: use \"\" or %q", e.Medium, v1.StorageMediumMemory)
	}
	if err := tidy.Dir(t.Mounts, a.Dir, memory, volume.MemoryBound(a.Pod, e.SizeLimit, a.Node.Allocatable)); err != nil {
		return volume.Mounted{}, err
	}
	if err := own.Apply(a.Dir, own.Group(a.Pod), false); err != nil {
		return volume.Mounted{}, err
	}
	return volume.Mounted{Name: a.Volume.Name, Type: t.Name(), Path: a.Dir}, nil
}

// TearDown removes the directory with all it holds.
func (t Type) TearDown(_ context.Context, dir string) error { return tidy.Remove(t.Mounts, dir) }
