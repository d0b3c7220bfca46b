package atomicwriter

import (
	"io/fs"
	"os"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/fsgroup"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

// WriteVolume makes the volume's directory, in memory if asked, and writes the payload into it with
// the Pod's group. Containers see it read-only, so the group may read the files, not write them
// (0440).
func WriteVolume(m volume.Mounter, a volume.MounterArgs, memory bool, p volume.Payload) error {
	if err := volumedir.Make(m, a.Dir, memory, volume.MemoryLimit(a.Pod, nil, a.Node.Allocatable)); err != nil {
		return err
	}
	group := a.FSGroup
	if _, err := Write(a.Dir, p, func(dir string) error { return fsgroup.ApplyGroup(a, dir, true) }); err !=
		nil || group == nil {
		return err
	}
	if err := os.Chown(a.Dir, -1, int(*group)); err != nil {
		return err
	}
	st, err := os.Stat(a.Dir)
	if err != nil {
		return err
	}
	return os.Chmod(a.Dir, st.Mode()&(fs.ModePerm|fs.ModeSticky)|fs.ModeSetgid)
}
