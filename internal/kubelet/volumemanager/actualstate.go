package volumemanager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// actualState is upstream's ActualStateOfWorld for the node: which volumes are staged on the node
// and which volumes of Pods use them. It is read from the vol_data.json files when it is first
// asked, and kept up to date from then on.
type actualState struct {
	mu     sync.Mutex
	loaded bool
	staged map[volume.VolumeID]*stagedVolume
}

// stagedVolume is one volume of the node. What is done to it follows each other.
type stagedVolume struct {
	data     volume.VolumeData
	locked   chan struct{}      // a place for one
	mounted  bool               // MountDevice succeeded in this boot; guarded by locked
	removed  bool               // UnmountDevice succeeded, and nothing was staged since; guarded by locked
	users    map[podVolume]bool // guarded by actualState.mu
	migrated bool               // it is Spec.Migrated; guarded by actualState.mu
}

// podVolume is a user of a staged volume: one volume of one Pod.
type podVolume struct {
	uid  types.UID
	name string
}

func (d *stagedVolume) lock(ctx context.Context) error {
	select {
	case d.locked <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *stagedVolume) unlock() { <-d.locked }

// addUser counts the Pod's volume as a user of the staged volume that its data names.
func (f *Manager) addUser(s volume.Spec, data volume.VolumeData, u podVolume) (*stagedVolume, error) {
	f.actual.mu.Lock()
	defer f.actual.mu.Unlock()
	if err := f.loadActualState(); err != nil {
		return nil, err
	}
	d := f.actual.find(data)
	d.users[u], d.migrated = true, s.Migrated
	return d, nil
}

// errInUse refuses a Pod, in upstream's words.
var errInUse = errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")

// takeExclusively counts the Pod's volume as the user of a volume that one Pod alone may use, or
// refuses it while another Pod is; taken tells that it was not counted. Other volumes are counted
// when they are staged.
func (f *Manager) takeExclusively(s volume.Spec, data volume.VolumeData, u podVolume) (taken bool, err error) {
	if s.PersistentVolume == nil || data.DeviceMountPath == "" ||
		!slices.Contains(s.PersistentVolume.Spec.AccessModes, v1.ReadWriteOncePod) {
		return false, nil
	}
	f.actual.mu.Lock()
	defer f.actual.mu.Unlock()
	if err := f.loadActualState(); err != nil {
		return false, err
	}
	d := f.actual.find(data)
	for other := range d.users {
		if other.uid != u.uid {
			return false, errInUse
		}
	}
	taken = !d.users[u]
	d.users[u] = true
	return taken, nil
}

// removeUser ends the use of a staged volume.
func (f *Manager) removeUser(data volume.VolumeData, u podVolume) (*stagedVolume, error) {
	f.actual.mu.Lock()
	defer f.actual.mu.Unlock()
	if err := f.loadActualState(); err != nil {
		return nil, err
	}
	d := f.actual.find(data)
	delete(d.users, u)
	return d, nil
}

// inUse tells whether some Pod's volume is a user.
func (f *Manager) inUse(d *stagedVolume) bool {
	f.actual.mu.Lock()
	defer f.actual.mu.Unlock()
	return len(d.users) > 0
}

// forgetUnused drops a volume that is staged no longer, unless a Pod came for it meanwhile.
func (f *Manager) forgetUnused(d *stagedVolume) {
	f.actual.mu.Lock()
	defer f.actual.mu.Unlock()
	if len(d.users) == 0 {
		delete(f.actual.staged, idOf(d.data))
	}
}

// unusedStagedVolumes are those that no Pod's volume uses.
func (f *Manager) unusedStagedVolumes() ([]*stagedVolume, error) {
	f.actual.mu.Lock()
	defer f.actual.mu.Unlock()
	if err := f.loadActualState(); err != nil {
		return nil, err
	}
	var out []*stagedVolume
	for _, d := range f.actual.staged {
		if len(d.users) == 0 {
			out = append(out, d)
		}
	}
	return out, nil
}

// StagedVolumes are the volumes that are staged on the node, or were to be.
func (f *Manager) StagedVolumes() ([]volume.VolumeData, error) {
	f.actual.mu.Lock()
	defer f.actual.mu.Unlock()
	if err := f.loadActualState(); err != nil {
		return nil, err
	}
	var out []volume.VolumeData
	for _, d := range f.actual.staged {
		out = append(out, d.data)
	}
	return out, nil
}

// idOf is what tells volumes apart, whatever PersistentVolumes they are behind.
func idOf(d volume.VolumeData) volume.VolumeID {
	return volume.VolumeID{DriverName: d.DriverName, VolumeHandle: d.VolumeHandle}
}

// find is the staged volume of the data, made known if it is not. The caller holds mu.
func (a *actualState) find(data volume.VolumeData) *stagedVolume {
	d := a.staged[idOf(data)]
	if d == nil {
		data.VolumeName, data.MountedInBoot = "", ""
		d = &stagedVolume{data: data, locked: make(chan struct{}, 1), users: map[podVolume]bool{}}
		a.staged[idOf(data)] = d
	}
	return d
}

// loadActualState reads, once, what an earlier kubelet staged and which Pods' volumes use it. The
// caller holds mu.
func (f *Manager) loadActualState() error {
	if f.actual.loaded {
		return nil
	}
	for _, row := range f.d.Plugins {
		if _, ok := row.Plugin.(volume.DeviceMountableVolumePlugin); !ok {
			continue
		}
		devices, err := filepath.Rel(f.d.Root, f.devicesDir(row.Plugin))
		if err != nil {
			return err
		}
		// Not deeper than this: below is what is mounted.
		staged := func(_ string, data volume.VolumeData) {
			f.actual.find(data).mounted = data.MountedInBoot != "" && data.MountedInBoot == f.bootID
		}
		for _, in := range []string{"*/*", filepath.Join(volumeDevicesDir, "*", deviceDataDir)} {
			if err := f.eachVolumeData(filepath.Join(devices, in), staged); err != nil {
				return err
			}
		}
		used := func(dir string, data volume.VolumeData) {
			if data.DeviceMountPath != "" {
				uid := strings.Split(dir, "/")[1]
				f.actual.find(data).users[podVolume{types.UID(uid), data.VolumeName}] = true
			}
		}
		if err := f.eachVolumeData(filepath.Join(podsDir, "*", pluginsDir, row.Plugin.Dir(), "*"), used); err != nil {
			return err
		}
	}
	f.actual.loaded = true
	return nil
}

// eachVolumeData calls back for each directory of the pattern that has a vol_data.json. Paths are
// relative to the kubelet's directory.
func (f *Manager) eachVolumeData(pattern string, found func(dir string, data volume.VolumeData)) error {
	files, err := fs.Glob(os.DirFS(f.d.Root), pattern+"/"+volumeDataFile)
	if err != nil {
		return err
	}
	var failed []error
	for _, file := range files {
		dir := filepath.Dir(file)
		data, err := readVolumeData(filepath.Join(f.d.Root, dir))
		switch {
		case err == nil:
			found(dir, data)
		case !errors.Is(err, fs.ErrNotExist):
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
