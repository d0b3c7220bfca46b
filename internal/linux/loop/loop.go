package loop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Device finds the loop device of an image; empty when it has none. The path that the kernel
// names is that of the process which attached it, and another one in another container: the file
// is the same when its device and inode are.
func Device(image string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(image, &st); errors.Is(err, unix.ENOENT) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return "", err
	}
	end := filepath.Join("/", filepath.Base(filepath.Dir(image)), filepath.Base(image))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(strings.TrimSuffix(string(text), "\n"), end) { // it may have gone meanwhile
			continue
		}
		dev := "/dev/" + strings.Split(file, "/")[3]
		if is, err := isDeviceOf(dev, &st); err != nil {
			return "", err
		} else if is {
			return dev, nil
		}
	}
	return "", nil
}

// isDeviceOf tells whether a loop device is one of the file.
func isDeviceOf(dev string, image *unix.Stat_t) (bool, error) {
	if n, err := strconv.Atoi(strings.TrimPrefix(dev, "/dev/loop")); err == nil {
		if err := makeNode(dev, n); err != nil {
			return false, err
		}
	}
	f, err := os.Open(dev)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if errors.Is(err, unix.ENXIO) { // detached meanwhile
		return false, nil
	}
	return err == nil && info.Device == image.Dev && info.Inode == image.Ino, err
}

// Attach gives the image a loop device, unless it has one.
func Attach(image string) (string, error) {
	image, err := filepath.EvalSymlinks(image)
	if err != nil {
		return "", err
	}
	if dev, err := Device(image); err != nil || dev != "" {
		return dev, err
	}
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return attach(file, image, 0)
}

// attach gives an open file a loop device that is free.
func attach(file *os.File, name string, flags uint32) (string, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("no loop devices on this node: %w", err)
	}
	defer control.Close()
	for range 64 { // another process may take the device that was free
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", fmt.Errorf("no loop device is free: %w", err)
		}
		dev := fmt.Sprintf("/dev/loop%d", n)
		if err := makeNode(dev, n); err != nil {
			return "", err
		}
		err = configure(dev, name, file, flags)
		if err == nil {
			return dev, nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return "", fmt.Errorf("%s: %w", dev, err)
		}
	}
	return "", errors.New("no loop device is free")
}

// makeNode makes the device's file where nobody does (a /dev that is no devtmpfs).
func makeNode(dev string, n int) error {
	if _, err := os.Stat(dev); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err := unix.Mknod(dev, unix.S_IFBLK|0o660, int(unix.Mkdev(7, uint32(n))))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

func configure(dev, image string, file *os.File, flags uint32) error {
	f, err := os.OpenFile(dev, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	config := unix.LoopConfig{Fd: uint32(file.Fd()), Info: unix.LoopInfo64{Flags: flags}}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], image)
	return unix.IoctlLoopConfigure(int(f.Fd()), &config)
}

// Detach takes the image's loop device away. It is a success when it has none.
func Detach(image string) error {
	if real, err := filepath.EvalSymlinks(image); err == nil {
		image = real
	}
	dev, err := Device(image)
	if err != nil || dev == "" {
		return err
	}
	return release(dev)
}

func release(dev string) error {
	f, err := os.OpenFile(dev, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("%s: %w", dev, err)
	}
	return nil
}

// DetachAll takes the loop devices of all files and devices below dir away. None may be mounted.
func DetachAll(dir string) error {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	var failed []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		image, _ := strings.CutSuffix(strings.TrimSuffix(string(text), "\n"), " (deleted)")
		if err == nil && strings.HasPrefix(image, dir+"/") {
			failed = append(failed, release("/dev/"+strings.Split(file, "/")[3]))
		}
	}
	return errors.Join(failed...)
}

// Resize has the device see that its image grew.
func Resize(dev string) error {
	f, err := os.OpenFile(dev, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("%s: %w", dev, err)
	}
	return nil
}
