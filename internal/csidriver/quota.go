package csidriver

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// projectQuotas limit how many bytes directories take of a file system: each is a project, by a
// number of its own.
type projectQuotas interface {
	// assign has all that will be made in a directory, which is empty, count for the project.
	assign(dir string, project uint32) error
	// limit is how many bytes the project may have from now on; 0 lifts it.
	limit(project uint32, bytes int64) error
	// used is how many bytes the project has.
	used(project uint32) (int64, error)
}

// detectQuotas finds out whether the file system of a directory limits projects now; why says what
// is missing when it does not.
func detectQuotas(dir string) (q projectQuotas, why string) {
	flags, err := kernelQuotas{dir}.flags()
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ESRCH), errors.Is(err, unix.EOPNOTSUPP),
		errors.Is(err, unix.EINVAL):
		return nil, fmt.Sprintf("the file system of %s is mounted without project quotas (prjquota), or the kernel "+
			"has none: %v", dir, err)
	case err != nil:
		return nil, fmt.Sprintf("asking for the project quotas of %s: %v", dir, err)
	}
	if why := missingQuota(flags); why != "" {
		return nil, fmt.Sprintf("the file system of %s %s", dir, why)
	}
	return kernelQuotas{dir}, ""
}

// missingQuota is what a file system with such flags of its quotas lacks; empty when it has all.
func missingQuota(flags uint16) string {
	switch {
	case flags&projectCounted == 0:
		return "has quotas, but none of projects (prjquota)"
	case flags&projectEnforced == 0:
		return "counts what projects have, and does not limit it (prjquota, not pqnoenforce)"
	}
	return ""
}

// kernelQuotas are those of the file system that a directory is on: XFS, or ext4 with the feature
// project. Both take the same calls.
type kernelQuotas struct{ dir string }

// Of linux/dqblk_xfs.h and linux/quota.h.
const (
	projectQuota    = 2          // PRJQUOTA
	getState        = 'X'<<8 | 5 // Q_XGETQSTAT
	setLimits       = 'X'<<8 | 4 // Q_XSETQLIM
	getQuota        = 'X'<<8 | 3 // Q_XGETQUOTA
	projectCounted  = 1 << 4     // FS_QUOTA_PDQ_ACCT
	projectEnforced = 1 << 5     // FS_QUOTA_PDQ_ENFD
	ofProject       = 1 << 1     // FS_PROJ_QUOTA
	hardAndSoft     = 3 << 2     // FS_DQ_BSOFT, FS_DQ_BHARD
	basicBlock      = 512
)

// diskQuota is fs_disk_quota.
type diskQuota struct {
	version, flags int8
	fields         uint16
	id             uint32
	hard, soft     uint64 // basic blocks
	_, _           uint64
	blocks         uint64
	_              [64]byte
}

func (q kernelQuotas) call(command int, project uint32, arg unsafe.Pointer) error {
	f, err := os.Open(q.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	_, _, no := unix.Syscall6(unix.SYS_QUOTACTL_FD, f.Fd(), uintptr(command<<8|projectQuota), uintptr(project),
		uintptr(arg), 0, 0)
	if no != 0 {
		return no
	}
	return nil
}

// flags are those of fs_quota_stat.
func (q kernelQuotas) flags() (uint16, error) {
	var state struct {
		_     uint16
		flags uint16
		_     [124]byte
	}
	err := q.call(getState, 0, unsafe.Pointer(&state))
	return state.flags, err
}

func (q kernelQuotas) limit(project uint32, bytes int64) error {
	blocks := uint64(bytes+basicBlock-1) / basicBlock
	d := diskQuota{version: 1, flags: ofProject, fields: hardAndSoft, id: project, hard: blocks, soft: blocks}
	if err := q.call(setLimits, project, unsafe.Pointer(&d)); err != nil {
		return fmt.Errorf("limiting project %d of %s: %w", project, q.dir, err)
	}
	return nil
}

func (q kernelQuotas) used(project uint32) (int64, error) {
	var d diskQuota
	err := q.call(getQuota, project, unsafe.Pointer(&d))
	if errors.Is(err, unix.ENOENT) { // it never had any
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("what project %d of %s has: %w", project, q.dir, err)
	}
	return int64(d.blocks) * basicBlock, nil
}

// Of linux/fs.h.
const (
	fsGetXattr     = 0x801c581f
	fsSetXattr     = 0x401c5820
	projectInherit = 0x200
)

// fsXattr is fsxattr.
type fsXattr struct {
	flags, _, _, project, _ uint32
	_                       [8]byte
}

func (kernelQuotas) assign(dir string, project uint32) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	var x fsXattr
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fsGetXattr, uintptr(unsafe.Pointer(&x))); no != 0 {
		return fmt.Errorf("the project of %s: %w", dir, no)
	}
	x.flags, x.project = x.flags|projectInherit, project
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fsSetXattr, uintptr(unsafe.Pointer(&x))); no != 0 {
		return fmt.Errorf("setting the project of %s: %w", dir, no)
	}
	return nil
}

// Numbers of projects, above those that people and kubelets give.
const firstProject, projects = 1 << 30, 1 << 30

// chooseProject is a number for a volume that no other has and that counts nothing yet. The caller
// holds mu.
func (s *store) chooseProject(id string) (uint32, error) {
	taken := map[uint32]bool{}
	all, err := s.volumes.list()
	if err != nil {
		return 0, err
	}
	for _, v := range all {
		taken[v.Project] = true
	}
	for _, r := range s.reserved {
		taken[r.project] = true
	}
	for n := crc32.ChecksumIEEE([]byte(id)); ; n++ {
		project := firstProject + n%projects
		if taken[project] {
			continue
		}
		if bytes, err := s.quotas.used(project); err != nil || bytes == 0 {
			return project, err
		}
	}
}
