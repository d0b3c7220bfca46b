// Package fsgroup sets the ownership of a volume by fsGroup.
//
// In: a directory, spec.securityContext.fsGroup and fsGroupChangePolicy. Out: group, group
// permissions and the setgid bit on everything in it; events when that takes long.
package fsgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Times after which upstream tells that a change of ownership takes long, and how far it is.
const (
	reportAfter    = 30 * time.Second
	reportInterval = time.Minute
)

// FSGroup is the Pod's fsGroup, nil when it has none.
func FSGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// SetVolumeOwnership gives a volume that outlives the Pod to the Pod's fsGroup, unless the policy
// OnRootMismatch finds that its top is the group's already.
// https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods
func SetVolumeOwnership(a volume.MounterArgs, dir string, readOnly bool) error {
	group := a.FSGroup
	if group == nil {
		return nil
	}
	if p := a.Pod.Spec.SecurityContext.FSGroupChangePolicy; p != nil && *p == v1.FSGroupChangeOnRootMismatch &&
		hasOwnership(dir, *group, readOnly) {
		return nil
	}
	var files atomic.Int64
	defer reportSlowChange(a, dir, &files)()
	end := a.Begin(volume.OperationApplyAccessControl)
	err := changeTree(dir, *group, readOnly, &files)
	end(err)
	return err
}

// ApplyGroup gives dir, which is a volume's that the kubelet fills, to the Pod's fsGroup, whatever
// the policy. Without a group it changes nothing.
func ApplyGroup(a volume.MounterArgs, dir string, readOnly bool) error {
	if a.FSGroup == nil {
		return nil
	}
	end := a.Begin(volume.OperationApplyAccessControl)
	err := ChangeOwnership(dir, a.FSGroup, readOnly)
	end(err)
	return err
}

// reportSlowChange says, from time to time, that the change takes long; the returned function ends
// that.
func reportSlowChange(a volume.MounterArgs, dir string, files *atomic.Int64) (stop func()) {
	if a.Event == nil {
		return func() {}
	}
	if i := strings.Index(dir, string(a.Pod.UID)); i >= 0 && a.Pod.UID != "" {
		dir = dir[i:]
	}
	const why = "VolumePermissionChangeInProgress"
	done := make(chan struct{})
	timer := time.AfterFunc(reportAfter, func() {
		a.Event(why,
			fmt.Sprintf("Setting volume ownership for %s is taking longer than expected, consider using "+
				"OnRootMismatch - "+
				"https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods", dir))
		t := time.NewTicker(reportInterval)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				a.Event(why, fmt.Sprintf("Setting volume ownership for %s, processed %d files.", dir, files.Load()))
			}
		}
	})
	return func() { timer.Stop(); close(done) }
}

// hasOwnership tells whether the directory itself has group, permissions and setgid bit as
// ChangeOwnership leaves them.
func hasOwnership(dir string, group int64, readOnly bool) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	want := addedMode(readOnly, true)
	return ok && int64(st.Gid) == group && info.Mode()&want == want
}

// ChangeOwnership gives dir and all below it to the group: files become readable and, unless
// readOnly, writable for it; directories also passable, and new files in them inherit the group.
// Symbolic links change hands but not their targets. A nil group changes nothing. A file that
// vanishes meanwhile is no error; one whose group or mode cannot be changed is told in the log and
// stays as it is, as upstream has it.
func ChangeOwnership(dir string, group *int64, readOnly bool) error {
	if group == nil {
		return nil
	}
	return changeTree(dir, *group, readOnly, new(atomic.Int64))
}

// changeTree changes the directory itself last, so that OnRootMismatch never passes over a change
// that was broken off.
func changeTree(dir string, group int64, readOnly bool, files *atomic.Int64) error {
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != dir {
			files.Add(1)
			changeFile(path, int(group), readOnly)
		}
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("fsGroup %d: %w", group, err)
	}
	changeFile(dir, int(group), readOnly)
	return nil
}

// changeFile gives one file to the group.
func changeFile(path string, group int, readOnly bool) {
	info, err := os.Lstat(path)
	if err == nil {
		err = os.Lchown(path, -1, group)
	}
	if info != nil && info.Mode()&fs.ModeSymlink == 0 {
		mode := info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) | addedMode(readOnly, info.IsDir())
		err = errors.Join(err, chmod(path, mode))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		klog.Background().Error(err, "A file is not given to the Pod's fsGroup", "path", path, "fsGroup", group)
	}
}

// chmod does not follow a link that somebody put there meanwhile, where the kernel can do that
// (6.6).
func chmod(path string, mode fs.FileMode) error {
	bits := uint32(mode.Perm())
	for has, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: unix.S_ISUID, fs.ModeSetgid: unix.S_ISGID,
		fs.ModeSticky: unix.S_ISVTX} {
		if mode&has != 0 {
			bits |= bit
		}
	}
	err := unix.Fchmodat(unix.AT_FDCWD, path, bits, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return os.Chmod(path, mode)
	}
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}

// addedMode are the bits a file or directory gets.
func addedMode(readOnly, dir bool) fs.FileMode {
	add := fs.FileMode(0o660)
	if readOnly {
		add = 0o440
	}
	if dir {
		add |= 0o110 | fs.ModeSetgid
	}
	return add
}
