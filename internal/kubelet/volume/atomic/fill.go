package atomic

import (
	"io/fs"
	"os"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/own"
	"github.com/gantry-project/gantry/internal/kubelet/volume/tidy"
)

// Fill makes the volume's directory, in memory if asked, and writes the payload into it with the Pod's group. Containers see it read-only, so the
// group may read the files, not write them (0440).
func Fill(m volume.Mounts, a volume.Ask, memory bool, p volume.Payload) error {
	if err := tidy.Dir(m, a.Dir, memory, volume.MemoryBound(a.Pod, nil, a.Node.Allocatable)); err != nil {
		return err
	}
	group := own.Group(a.Pod)
	if _, err := Write(a.Dir, p, func(dir string) error { return own.Apply(dir, group, true) }); err != nil || group == nil {
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
