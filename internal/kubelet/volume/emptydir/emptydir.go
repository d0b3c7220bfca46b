// Package emptydir makes emptyDir volumes: a directory, a tmpfs or huge pages, that lives as long
// as the Pod does on the node.
//
// In: medium, sizeLimit. Out: an empty directory every user of the Pod may write to, the same one
// after a restart of a container or of the kubelet.
package emptydir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/fsgroup"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

// Plugin is emptyDir.
type Plugin struct{ Mounts volume.Mounter }

// Name is the field of v1.VolumeSource.
func (Plugin) Name() string { return "emptyDir" }

// Dir is the plugin's directory.
func (Plugin) Dir() string { return "kubernetes.io~empty-dir" }

// RequiresRemount is false: what is in the volume is the Pod's.
func (Plugin) RequiresRemount(volume.Spec) bool { return false }

// SetUp makes the directory.
func (t Plugin) SetUp(_ context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	e := a.Spec.Volume.EmptyDir
	if e == nil {
		e = &v1.EmptyDirVolumeSource{}
	}
	out := volume.Mounted{Path: a.Dir, Size: volume.SizeOfFiles}
	if done, err := t.ready(a, e.Medium); err != nil || done {
		return out, err
	}
	var err error
	switch {
	case e.Medium == v1.StorageMediumDefault, e.Medium == v1.StorageMediumMemory:
		err = volumedir.Make(t.Mounts, a.Dir, e.Medium == v1.StorageMediumMemory,
			volume.MemoryLimit(a.Pod, e.SizeLimit, a.Node.Allocatable))
	case strings.HasPrefix(string(e.Medium), string(v1.StorageMediumHugePages)):
		var size string
		if size, err = volume.HugePage(a.Pod, e.Medium); err == nil {
			err = volumedir.MakeHugetlbfs(t.Mounts, a.Dir, size)
		}
	default:
		err = fmt.Errorf("unknown storage medium %q: use \"\", %q, %q or %s<size>", e.Medium, v1.StorageMediumMemory,
			v1.StorageMediumHugePages, v1.StorageMediumHugePagesPrefix)
	}
	if err != nil {
		return volume.Mounted{}, err
	}
	// The volume is new: fsGroupChangePolicy has no say.
	if err := fsgroup.ApplyGroup(a, a.Dir, false); err != nil {
		return volume.Mounted{}, err
	}
	return out, markReady(a)
}

// readyFile, in the volume's MetaDir, tells that the volume was set up: from then on groups and
// modes are the Pod's.
const readyFile = "ready"

// ready tells whether an earlier kubelet has set the volume up, and it is still there.
func (t Plugin) ready(a volume.MounterArgs, medium v1.StorageMedium) (bool, error) {
	if a.MetaDir == "" {
		return false, nil
	}
	if _, err := os.Stat(filepath.Join(a.MetaDir, readyFile)); err != nil {
		return false, nil
	}
	if medium != v1.StorageMediumDefault {
		return t.Mounts.IsMountPoint(a.Dir)
	}
	_, err := os.Stat(a.Dir)
	return err == nil, nil
}

func markReady(a volume.MounterArgs) error {
	if a.MetaDir == "" {
		return nil
	}
	if err := os.MkdirAll(a.MetaDir, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.MetaDir, readyFile), nil, 0o600)
}

// TearDown removes the directory with all it holds.
func (t Plugin) TearDown(_ context.Context, a volume.UnmounterArgs) error {
	return volumedir.Remove(t.Mounts, a.Dir)
}
