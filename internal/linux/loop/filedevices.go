package loop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// FileDevices keeps devices open by loop devices over them: one for each path. A device that is
// open is not replaced by another of its name.
type FileDevices struct{}

// AttachFileDevice gives the file or device at a path a loop device, unless it has one by that
// path. A loop device by that path of what is there no more is taken away first.
func (FileDevices) AttachFileDevice(path string) (dev string, err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	held, err := heldBy(path)
	if err != nil {
		return "", err
	}
	for _, dev := range held {
		if is, err := holds(dev, path); err != nil || is {
			return dev, err
		}
		if err := release(dev); err != nil {
			return "", err
		}
	}
	var flags uint32
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) {
		flags = unix.LO_FLAGS_READ_ONLY
		file, err = os.Open(path)
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	return attach(file, path, flags)
}

// DetachFileDevice takes away what AttachFileDevice gave a path. It is a success when there is
// nothing, also when the path is gone.
func (FileDevices) DetachFileDevice(path string) error {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	held, err := heldBy(path)
	if err != nil {
		return err
	}
	var failed []error
	for _, dev := range held {
		failed = append(failed, release(dev))
	}
	return errors.Join(failed...)
}

// heldBy are the loop devices that were attached by a path.
func heldBy(path string) (devs []string, err error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil { // it may have gone meanwhile
			continue
		}
		if name, _ := strings.CutSuffix(strings.TrimSuffix(string(text), "\n"), " (deleted)"); name == path {
			devs = append(devs, "/dev/"+strings.Split(file, "/")[3])
		}
	}
	return devs, nil
}

// holds tells whether a loop device is one of what is at the path now.
func holds(dev, path string) (bool, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return false, fmt.Errorf("stat %s: %w", path, err)
	}
	return isDeviceOf(dev, &st)
}
