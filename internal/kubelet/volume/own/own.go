// Package own gives a volume to the Pod's group.
//
// Chapter: furnished. In: a directory, spec.securityContext.fsGroup. Out: group, group permissions and the setgid bit on everything in it.
package own

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
)

// Group is the Pod's fsGroup, nil when it has none.
func Group(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// Apply gives dir and all below it to the group: files become readable and, unless readOnly, writable for it; directories also passable, and new files in them inherit the
// group. Symbolic links change hands but not their targets. A nil group changes nothing. A file that vanishes meanwhile is no error.
func Apply(dir string, group *int64, readOnly bool) error {
	if group == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = one(path, int(*group), readOnly)
		}
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		if err != nil {
			return fmt.Errorf("fsGroup %d: %w", *group, err)
		}
		return nil
	})
}

func one(path string, group int, readOnly bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if err := os.Lchown(path, -1, group); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	add := fs.FileMode(0o660)
	if readOnly {
		add = 0o440
	}
	if info.IsDir() {
		add |= 0o110 | fs.ModeSetgid
	}
	return os.Chmod(path, info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)|add)
}
