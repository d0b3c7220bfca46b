// Package hostpath is the hostPath volume type.
//
// In: path and type. Out: the path itself, after the type's check; nothing is mounted by the
// kubelet, and nothing is ever removed.
package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// errNoOptions is upstream's: what is not mounted takes no mount options.
var errNoOptions = errors.New("mount options are not supported for this volume type")

// Plugin is hostPath.
type Plugin struct {
	V136 bool // a path of another type is refused in the words of v1.36
}

// Name is the field of v1.VolumeSource.
func (Plugin) Name() string { return "hostPath" }

// Dir is empty: the volume is not below the Pod's directory.
func (Plugin) Dir() string { return "" }

// RequiresRemount is false.
func (Plugin) RequiresRemount(volume.Spec) bool { return false }

// SetUp checks the path, and makes it for the two types that ask for that.
func (p Plugin) SetUp(_ context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	h := a.Spec.Volume.HostPath
	if pv := a.Spec.PersistentVolume; pv != nil {
		h = pv.Spec.HostPath
		if len(volume.MountOptions(pv)) > 0 {
			return volume.Mounted{}, volume.PartError{Part: volume.MountOptionSupport, Err: errNoOptions}
		}
	}
	if err := Check(h.Path, h.Type); err != nil {
		var other *typeError
		if p.V136 && errors.As(err, &other) {
			err = fmt.Errorf("hostPath type check failed: %s is not a %s", other.path, other.want)
		}
		return volume.Mounted{}, err
	}
	return volume.Mounted{Path: h.Path, ReadOnly: a.Spec.ReadOnly, Device: a.Spec.Block()}, nil
}

// TearDown does nothing: the path is the node's.
func (Plugin) TearDown(context.Context, volume.UnmounterArgs) error { return nil }

// Check verifies that the path is of the type, or makes it. A nil or empty type takes anything,
// also a path that is not there.
func Check(path string, kind *v1.HostPathType) error {
	if slices.Contains(strings.Split(path, "/"), "..") {
		return fmt.Errorf("invalid HostPath `%s`: must not contain '..'", path)
	}
	if kind == nil || *kind == v1.HostPathUnset {
		return nil
	}
	info, err := os.Stat(path)
	absent, f := errors.Is(err, fs.ErrNotExist), file{path, info, err}
	switch *kind {
	case v1.HostPathDirectoryOrCreate:
		if absent {
			return os.MkdirAll(path, 0o755)
		}
		fallthrough
	case v1.HostPathDirectory:
		return checkType(f, "directory", err == nil && info.IsDir())
	case v1.HostPathFileOrCreate:
		if absent {
			return touch(path)
		}
		fallthrough
	case v1.HostPathFile:
		return checkType(f, "file", err == nil && info.Mode().IsRegular())
	case v1.HostPathSocket:
		return checkType(f, "socket file", err == nil && info.Mode()&fs.ModeSocket != 0)
	case v1.HostPathCharDev:
		return checkType(f, "character device", err == nil && info.Mode()&fs.ModeCharDevice != 0)
	case v1.HostPathBlockDev:
		return checkType(f, "block device",
			err == nil && info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0)
	}
	return fmt.Errorf("%s is an invalid volume type", *kind)
}

// errUnknownFileType tells of a file of another type than volumes know.
var errUnknownFileType = errors.New("only recognise file, directory, socket, block device and character device")

// file is a path and what the node says of it.
type file struct {
	path string
	info fs.FileInfo
	err  error
}

// typeError says in upstream's words that a path is not what was asked for.
type typeError struct {
	path, want string
	found      v1.HostPathType
	err        error // the type cannot be told
}

func (e *typeError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("hostPath type check failed, %s is not a %s, unable to determine its type: %v", e.path,
			e.want, e.err)
	}
	return fmt.Sprintf("hostPath type check failed: %s is not a %s, it's a %s", e.path, e.want, e.found)
}

func (e *typeError) Unwrap() error { return e.err }

// checkType returns an error when a path is not what was asked for.
func checkType(f file, what string, is bool) error {
	if is {
		return nil
	}
	found, err := f.kind()
	return &typeError{f.path, what, found, err}
}

// kind is the type of the path, by the names of the API.
func (f file) kind() (v1.HostPathType, error) {
	path, info, err := f.path, f.info, f.err
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("path %q does not exist", path)
	case err != nil:
		return "", err
	case info.IsDir():
		return v1.HostPathDirectory, nil
	case info.Mode().IsRegular():
		return v1.HostPathFile, nil
	case info.Mode()&fs.ModeSocket != 0:
		return v1.HostPathSocket, nil
	case info.Mode()&fs.ModeCharDevice != 0:
		return v1.HostPathCharDev, nil
	case info.Mode()&fs.ModeDevice != 0:
		return v1.HostPathBlockDev, nil
	}
	return "", errUnknownFileType
}

func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}
