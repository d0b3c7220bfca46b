package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// diskSize is what each disk has; its image is sparse.
const diskSize = 16 << 30

// addDisk gives the node a disk with xfs for its local volumes: copies of raw volumes that are in
// use are made only where the disk shares blocks.
func (n *node) addDisk(ctx context.Context) error {
	dir := filepath.Join(diskDirs, n.name)
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "d")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(diskSize), f.Close()); err != nil {
		return err
	}
	for _, args := range [][]string{{"mkfs.xfs", "-q", image}, {"mount", "-o", "loop", image, at}} {
		if _, err := output(ctx, "", args[0], args[1:]...); err != nil {
			return err
		}
	}
	return os.Symlink(at, n.in("local-storage"))
}

// removeDisks takes the disks away, also those of a killed run.
func removeDisks() error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(diskDirs) // as mounts are listed
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	dirs, err := filepath.Glob(filepath.Join(real, "*", "d"))
	if err != nil {
		return err
	}
	var all []error
	for _, at := range dirs {
		if strings.Contains(string(mounts), " "+at+" ") {
			_, err := output(context.Background(), "", "umount", at)
			all = append(all, err)
		}
	}
	if err := errors.Join(all...); err != nil {
		return err
	}
	return os.RemoveAll(diskDirs)
}
