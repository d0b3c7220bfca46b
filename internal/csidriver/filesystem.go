package csidriver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-project/gantry/internal/linux/loop"
)

const (
	defaultFS = "ext4"
	xfs       = "xfs"
)

// fileSystem is a type of file system that images may have.
type fileSystem struct {
	name, tools string // tools: Debian's package
	smallest    int64  // bytes of a volume
	make        []string
	options     []string // of mount(8)
	grow        string   // program, of a device or a mount point
	// growsMounted: it grows only while it is mounted, and else only while it is not checked either
	growsMounted bool
}

// fileSystems are those that are served. A copy of an XFS has the UUID of its source: nouuid mounts
// both.
var fileSystems = map[string]fileSystem{
	defaultFS: {name: defaultFS, tools: "e2fsprogs", smallest: minSize, grow: "resize2fs",
		make: []string{"-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1"}},
	xfs: {name: xfs, tools: "xfsprogs", smallest: 300 << 20, grow: "xfs_growfs", growsMounted: true,
		make: []string{"-q", "-f"}, options: []string{"nouuid"}},
}

// made tells why this node cannot make such a file system, or grow it; nil when it can.
func (f fileSystem) made() error {
	for _, program := range []string{"mkfs." + f.name, f.grow} {
		if _, err := exec.LookPath(program); err != nil {
			return status.Errorf(codes.FailedPrecondition, "this node has no %s, which volumes with the file system "+
				"%s need: install the package %s", program, f.name, f.tools)
		}
	}
	return nil
}

// fsTypeIn is the file system that capabilities ask for; empty when they leave it to the driver.
func fsTypeIn(all []*csipb.VolumeCapability) (string, error) {
	asked := ""
	for _, c := range all {
		t := c.GetMount().GetFsType()
		switch _, served := fileSystems[t]; {
		case t == "":
		case !served:
			return "", status.Errorf(codes.InvalidArgument, "file system %q is not served, only %s and %s", t,
				defaultFS, xfs)
		case asked != "" && asked != t:
			return "", status.Errorf(codes.InvalidArgument, "a volume has one file system, not both %s and %s",
				asked, t)
		default:
			asked = t
		}
	}
	return asked, nil
}

// checkFSType refuses to use a volume with another file system than it has. A copy has its
// source's, whatever its claim's class says.
func (v *record) checkFSType(asked string) error {
	if asked == "" || v.Block || v.Kind != kindImage || v.Source != "" || asked == v.fsType() {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "volume %s has the file system %s, not %s", v.ID, v.fsType(), asked)
}

// fsType is the file system that an image has, or gets when it is first used.
func (v *record) fsType() string { return cmp.Or(v.FSType, v.NewFS, defaultFS) }

// makeFS makes a file system on a device.
func makeFS(ctx context.Context, t fileSystem, dev string) error {
	if err := t.made(); err != nil {
		return err
	}
	return run(ctx, "mkfs."+t.name, append(slices.Clone(t.make), dev)...)
}

// checkFS repairs what a node that was cut off left. XFS does that itself when it is mounted.
func checkFS(ctx context.Context, t fileSystem, dev string) error {
	if _, err := exec.LookPath("fsck." + t.name); err != nil || t.growsMounted {
		return nil
	}
	return repaired(run(ctx, "fsck."+t.name, "-p", dev))
}

// repaired takes fsck's "errors were corrected" for what it is: no error.
func repaired(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil
	}
	return err
}

// growMounted makes a file system that is mounted as big as its device. For ext4 the kernel lets
// only processes with CAP_SYS_RESOURCE; the error says what grows the volume else.
func growMounted(ctx context.Context, t fileSystem, dev, at string) error {
	if t.growsMounted {
		return run(ctx, t.grow, at)
	}
	err := run(ctx, t.grow, dev)
	if err != nil && strings.Contains(err.Error(), "Permission denied to resize filesystem") {
		return fmt.Errorf("this process may not resize a mounted file system (CAP_SYS_RESOURCE is missing): the "+
			"volume grows when its Pods are started again: %w", err)
	}
	return err
}

// growUnmounted does so before it is mounted, where it can. The whole file system is checked first,
// as resize2fs wants it; nothing is done for one that is as big as its device.
func growUnmounted(ctx context.Context, t fileSystem, dev string) error {
	if small, err := isSmaller(dev); err != nil || !small || t.growsMounted {
		return err
	}
	if err := repaired(run(ctx, "fsck."+t.name, "-f", "-p", dev)); err != nil {
		return err
	}
	return run(ctx, t.grow, dev)
}

// isSmaller tells whether a file system is smaller than its device, once the device sees how big
// its image is.
func isSmaller(dev string) (bool, error) {
	if err := loop.Resize(dev); err != nil {
		return false, err
	}
	f, err := os.Open(dev)
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	has, err := readSuperblock(dev)
	return err == nil && size-has.bytes >= fsBlock, err
}

// superblock is what a device says of the file system on it.
type superblock struct {
	fs    string // empty: none that is served
	bytes int64  // that it spans
}

// Of the superblocks of ext4, https://docs.kernel.org/filesystems/ext4/super.html, with its offset,
// and of XFS, which begins the device and has numbers of big endian.
const (
	superblockAt   = 1024
	blocksLowAt    = superblockAt + 0x4
	logBlockSizeAt = superblockAt + 0x18
	incompatAt     = superblockAt + 0x60
	blocksHighAt   = superblockAt + 0x150
	incompat64Bit  = 0x80
	magicAt        = superblockAt + 0x38
	extMagic       = 0xef53
	xfsMagic       = "XFSB"
	xfsBlockSizeAt = 0x4
	xfsBlocksAt    = 0x8
	fsBlock        = 4096 // of which a rest may be left over at the end of a device
)

// readSuperblock tells which file system a device or image holds.
func readSuperblock(dev string) (superblock, error) {
	f, err := os.Open(dev)
	if err != nil {
		return superblock{}, err
	}
	defer f.Close()
	b := make([]byte, 2*superblockAt)
	if _, err := f.ReadAt(b, 0); err != nil {
		return superblock{}, fmt.Errorf("reading the superblock of %s: %w", dev, err)
	}
	little, big := binary.LittleEndian, binary.BigEndian
	switch {
	case bytes.HasPrefix(b, []byte(xfsMagic)):
		return superblock{fs: xfs, bytes: int64(big.Uint64(b[xfsBlocksAt:]) * uint64(big.Uint32(b[xfsBlockSizeAt:])))},
			nil
	case little.Uint16(b[magicAt:]) == extMagic:
		blocks := uint64(little.Uint32(b[blocksLowAt:]))
		if little.Uint32(b[incompatAt:])&incompat64Bit != 0 {
			blocks |= uint64(little.Uint32(b[blocksHighAt:])) << 32
		}
		return superblock{fs: defaultFS, bytes: int64(blocks << (10 + little.Uint32(b[logBlockSizeAt:])%16))}, nil
	}
	return superblock{}, nil
}
