package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/utils/keymutex"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/fsgroup"
)

// pathLocks has one lock per path of a local volume: what two Pods do to its group follows each
// other.
var pathLocks = keymutex.NewHashed(0)

// pathFile, in a volume's MetaDir, holds the path of a local volume that a Pod uses.
const pathFile = "path"

// formerDir is the directory that marks were kept in before local volumes had one of their own:
// Pods that run through an upgrade have theirs there.
const formerDir = "kubernetes.io~nfs"

// chownIfUnused gives the directory to the Pod's group if no other Pod of this node uses it: group
// and modes are not changed under a Pod that runs. A Pod that comes later and wants another group
// is told so by an event.
func chownIfUnused(a volume.MounterArgs, m volume.Mounted) error {
	if a.MetaDir == "" {
		return setOwnership(a, m)
	}
	mark := filepath.Join(a.MetaDir, pathFile)
	former := filepath.Join(filepath.Dir(filepath.Dir(a.MetaDir)), formerDir, filepath.Base(a.MetaDir), pathFile)
	for _, file := range []string{mark, former} {
		if path, err := os.ReadFile(file); err == nil && string(path) == m.Path {
			return nil // set up before the kubelet was started anew
		}
	}
	shared, err := isMountedByOtherVolume(a.MetaDir, m.Path)
	if err != nil {
		return err
	}
	if shared {
		err = warnGroupKept(a, m)
	} else {
		err = setOwnership(a, m)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.MetaDir, 0o750); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte(m.Path), 0o600)
}

func setOwnership(a volume.MounterArgs, m volume.Mounted) error {
	if m.ReadOnly {
		return nil
	}
	return fsgroup.SetVolumeOwnership(a, m.Path, false)
}

// isMountedByOtherVolume tells whether another volume of a Pod on this node is the local path. meta
// is <root>/pods/<uid>/plugins/<plugin>/<name>.
func isMountedByOtherVolume(meta, path string) (bool, error) {
	plugin := filepath.Dir(meta)
	pods := filepath.Dir(filepath.Dir(filepath.Dir(plugin)))
	var marks []string
	for _, dir := range []string{filepath.Base(plugin), formerDir} {
		found, err := fs.Glob(os.DirFS(pods), "*/plugins/"+dir+"/*/"+pathFile)
		if err != nil {
			return false, err
		}
		marks = append(marks, found...)
	}
	for _, mark := range marks {
		other, err := os.ReadFile(filepath.Join(pods, mark))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if err == nil && string(other) == path {
			return true, nil
		}
	}
	return false, nil
}

// warnGroupKept tells that the volume keeps another group than the Pod asks for.
func warnGroupKept(a volume.MounterArgs, m volume.Mounted) error {
	want := a.FSGroup
	if want == nil {
		return nil
	}
	info, err := os.Stat(m.Path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && int64(st.Gid) != *want && a.Event != nil {
		a.Event("AlreadyMountedVolume",
			fmt.Sprintf("The requested fsGroup is %d, but the volume %s has GID %d. The volume may not be shareable.",
				*want, a.Spec.Name(), st.Gid))
	}
	return nil
}
