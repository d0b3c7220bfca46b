package volumemanager

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Names below the kubelet's directory, as upstream's.
const (
	volumeDataFile = "vol_data.json"
	globalMount    = "globalmount"
)

// newVolumeData is what is to be stored of a volume of the Pod.
func (f *Manager) newVolumeData(pod *v1.Pod, s volume.Spec, t volume.Plugin) (volume.VolumeData, error) {
	d := volume.VolumeData{PluginName: t.Name(), VolumeName: s.Volume.Name, SpecVolID: s.Name(), Block: s.Block()}
	m, ok := t.(volume.DeviceMountableVolumePlugin)
	if !ok {
		return d, nil
	}
	id, err := m.VolumeID(pod, s)
	if err != nil {
		return d, err
	}
	if id.DriverName == "" {
		id.DriverName = t.Name()
	}
	if strings.Contains(id.DriverName, "/") || !filepath.IsLocal(id.DriverName) {
		return d, fmt.Errorf("%q is no name of a driver", id.DriverName)
	}
	d.DriverName, d.VolumeHandle = id.DriverName, id.VolumeHandle
	switch _, raw := t.(volume.BlockVolumePlugin); {
	case m.CanDeviceMount(s) && raw && d.Block:
		d.DeviceMountPath = filepath.Join(f.devicesDir(t), volumeDevicesDir, stagingDir, d.SpecVolID)
	case m.CanDeviceMount(s):
		d.DeviceMountPath = filepath.Join(f.devicesDir(t), id.DriverName,
			fmt.Sprintf("%x", sha256.Sum256([]byte(id.VolumeHandle))), globalMount)
	}
	return d, nil
}

// stagedDataDir is where it is stored that the volume is staged. It goes with what is beside it
// when the volume is unstaged.
func stagedDataDir(d volume.VolumeData) string {
	dir := filepath.Dir(d.DeviceMountPath)
	if d.Block && filepath.Base(dir) == stagingDir {
		return filepath.Join(filepath.Dir(dir), d.SpecVolID, deviceDataDir)
	}
	return dir
}

// devicesDir is where the plugin's staged volumes are, like <root>/plugins/kubernetes.io/csi.
func (f *Manager) devicesDir(t volume.Plugin) string {
	return filepath.Join(f.d.Root, pluginsDir, strings.ReplaceAll(t.Dir(), "~", "/"))
}

// writeVolumeData stores it in dir, whole or not at all.
func writeVolumeData(dir string, d volume.VolumeData) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	file := filepath.Join(dir, volumeDataFile)
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// readVolumeData reads what is stored in dir. The error is fs.ErrNotExist when there is nothing, as
// with volumes that a kubelet without such files mounted.
func readVolumeData(dir string) (d volume.VolumeData, err error) {
	file := filepath.Join(dir, volumeDataFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// volumesOnDisk lists a Pod's volumes: those that have a directory, and those of which only
// vol_data.json is there.
func (f *Manager) volumesOnDisk(uid types.UID) ([]volume.DirOnDisk, error) {
	out, err := listDirs(filepath.Join(f.podDir(uid), volumesDir))
	if err != nil {
		return nil, err
	}
	stored, err := listDirs(filepath.Join(f.podDir(uid), pluginsDir))
	if err != nil {
		return nil, err
	}
	for _, d := range stored {
		_, err := os.Lstat(filepath.Join(f.metaDir(uid, d.Plugin, d.Name), volumeDataFile))
		if err == nil && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	for i, d := range out {
		if _, staged := f.d.Plugins.FindPluginByDir(d.Plugin).(volume.DeviceMountableVolumePlugin); !staged {
			continue
		}
		if data, err := readVolumeData(f.metaDir(uid, d.Plugin, d.Name)); err == nil {
			out[i].VolumeName = data.VolumeName // else nothing is stored, or what is damaged: tearDown says so
		}
	}
	return out, nil
}

// listDirs lists <dir>/<plugin>/<name>; nothing when there is no dir.
func listDirs(dir string) ([]volume.DirOnDisk, error) {
	plugins, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []volume.DirOnDisk
	for _, p := range plugins {
		volumes, err := os.ReadDir(filepath.Join(dir, p.Name()))
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			out = append(out, volume.DirOnDisk{Plugin: p.Name(), Name: v.Name()})
		}
	}
	return out, nil
}
