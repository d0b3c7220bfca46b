// Package downwardapi makes downwardAPI volumes: files that tell a Pod about itself.
//
// In: the Pod, its node's allocatable. Out: files in memory that follow labels, annotations and
// resources.
package downwardapi

import (
	"context"

	"fmt"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/atomicwriter"
	"github.com/gantry-project/gantry/internal/kubelet/volume/fieldpath"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

// Plugin is downwardAPI.
type Plugin struct{ Mounts volume.Mounter }

// Name is the field of v1.VolumeSource.
func (Plugin) Name() string { return "downwardAPI" }

// Dir is the plugin's directory.
func (Plugin) Dir() string { return "kubernetes.io~downward-api" }

// RequiresRemount is true: labels and annotations change.
func (Plugin) RequiresRemount(volume.Spec) bool { return true }

// SetUp writes the files.
func (t Plugin) SetUp(_ context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	s := a.Spec.Volume.DownwardAPI
	mode := v1.DownwardAPIVolumeSourceDefaultMode
	if s.DefaultMode != nil {
		mode = *s.DefaultMode
	}
	p, err := Read(a.Pod, a.Node.Allocatable, s.Items, mode)
	if err != nil {
		return volume.Mounted{}, err
	}
	if err := atomicwriter.WriteVolume(t.Mounts, a, true, p); err != nil {
		return volume.Mounted{}, err
	}
	return volume.Mounted{Path: a.Dir, ReadOnly: true,
		Size: volume.SizeOfFiles}, nil
}

// TearDown removes the directory.
func (t Plugin) TearDown(_ context.Context, a volume.UnmounterArgs) error {
	return volumedir.Remove(t.Mounts, a.Dir)
}

// Read makes the files of downward API items.
func Read(pod *v1.Pod, allocatable v1.ResourceList, items []v1.DownwardAPIVolumeFile,
	mode int32) (volume.Payload, error) {
	p := volume.Payload{}
	var bad []error
	for i := range items {
		item := &items[i]
		text, err := read(pod, allocatable, item)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		f := volume.File{Data: []byte(text), Mode: mode}
		if item.Mode != nil {
			f.Mode = *item.Mode
		}
		p[item.Path] = f
	}
	return p, utilerrors.NewAggregate(bad)
}

func read(pod *v1.Pod, allocatable v1.ResourceList, item *v1.DownwardAPIVolumeFile) (string, error) {
	switch {
	case item.FieldRef != nil:
		return fieldpath.PodField(pod, item.FieldRef.FieldPath)
	case item.ResourceFieldRef != nil:
		return fieldpath.ContainerResource(pod, "", item.ResourceFieldRef, allocatable)
	}
	return "", fmt.Errorf("downwardAPI item %q names neither a field nor a resource", item.Path)
}
