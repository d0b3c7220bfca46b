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
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/atomicwriter"
	"github.com/gantry-project/gantry/internal/kubelet/volume/fieldpath"
)

// New returns the type downwardAPI.
func New(m volume.Mounter) atomicwriter.Plugin {
	read := func(_ context.Context, a volume.MounterArgs) (volume.Payload, error) {
		s := a.Spec.Volume.DownwardAPI
		return Read(a.Pod, a.Node.Allocatable, s.Items,
			ptr.Deref(s.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode))
	}
	return atomicwriter.NewPlugin(m, atomicwriter.PluginOptions{Name: "downwardAPI",
		Dir: "kubernetes.io~downward-api", Memory: true, Read: read})
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
