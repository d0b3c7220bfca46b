package csidriver_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-project/gantry/internal/csidriver"
	"github.com/gantry-project/gantry/test/expect"
)

// ofFS is a capability of a volume with a file system.
func ofFS(fs string) *csipb.VolumeCapability {
	return &csipb.VolumeCapability{AccessMode: capability.AccessMode,
		AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{FsType: fs}}}
}

// needsXFS skips where XFS cannot be made or mounted.
func needsXFS(t *testing.T) {
	t.Helper()
	known, err := os.ReadFile("/proc/filesystems")
	for _, program := range []string{"mkfs.xfs", "xfs_growfs"} {
		if _, missing := exec.LookPath(program); missing != nil {
			err = missing
		}
	}
	if err != nil || !strings.Contains(string(known), "\txfs\n") {
		t.Skipf("no XFS here: %v", err)
	}
}

// used is a driver's volume that is staged, until the test ends.
func used(t *testing.T, d *csidriver.Driver, o csidriver.Options, id, fs string) (at string) {
	t.Helper()
	at = filepath.Join(filepath.Dir(o.Dir), "staged-"+id)
	_, err := d.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: at,
		VolumeCapability: ofFS(fs)})
	expect.NoError(t, err)
	t.Cleanup(func() {
		_, err := d.NodeUnstageVolume(context.Background(), &csipb.NodeUnstageVolumeRequest{VolumeId: id,
			StagingTargetPath: at})
		expect.NoError(t, err)
	})
	return at
}

func typeAndSize(t *testing.T, at string) (xfs bool, megabytes int64) {
	t.Helper()
	var st unix.Statfs_t
	expect.NoError(t, unix.Statfs(at, &st))
	return st.Type == unix.XFS_SUPER_MAGIC, int64(st.Blocks) * st.Bsize >> 20
}

// A volume whose class says xfs has an XFS of its size, at least the smallest that there is; it
// grows while it is in use, and when it was not; its clone, of the same UUID, is mounted beside it.
func TestAnXFSVolume(t *testing.T) {
	needsXFS(t)
	d, o := newDriver(t)
	made, err := d.CreateVolume(t.Context(), &csipb.CreateVolumeRequest{Name: "v", Parameters: map[string]string{
		"type": "image"}, VolumeCapabilities: []*csipb.VolumeCapability{ofFS("xfs")},
		CapacityRange: &csipb.CapacityRange{RequiredBytes: 1 << 20}})
	expect.NoError(t, err)
	if got := made.GetVolume().GetCapacityBytes(); got != 300<<20 {
		t.Errorf("got a volume of %d bytes, want the 300 MiB of the smallest XFS", got)
	}
	at := used(t, d, o, "v", "xfs")
	if is, size := typeAndSize(t, at); !is || size > 300 || size < 200 {
		t.Errorf("staged: XFS %t with %d MiB, want XFS with less than 300", is, size)
	}
	expect.NoError(t, os.WriteFile(filepath.Join(at, "kept"), []byte("kept"), 0o600))
	grow := func(mib int64) {
		t.Helper()
		_, err := d.ControllerExpandVolume(t.Context(), &csipb.ControllerExpandVolumeRequest{VolumeId: "v",
			CapacityRange: &csipb.CapacityRange{RequiredBytes: mib << 20}})
		expect.NoError(t, err)
	}
	grow(400)
	if _, err := d.NodeExpandVolume(t.Context(), &csipb.NodeExpandVolumeRequest{VolumeId: "v", VolumePath: at,
		StagingTargetPath: at}); err != nil {
		t.Errorf("growing in use: got %v, want no error", err)
	}
	if _, size := typeAndSize(t, at); size < 300 {
		t.Errorf("grown in use: got %d MiB, want 400 less the log", size)
	}
	_, err = d.CreateVolume(t.Context(), &csipb.CreateVolumeRequest{Name: "clone",
		VolumeCapabilities: []*csipb.VolumeCapability{ofFS("")},
		CapacityRange:      &csipb.CapacityRange{RequiredBytes: 500 << 20},
		VolumeContentSource: &csipb.VolumeContentSource{Type: &csipb.VolumeContentSource_Volume{
			Volume: &csipb.VolumeContentSource_VolumeSource{VolumeId: "v"}}}})
	expect.NoError(t, err)
	clone := used(t, d, o, "clone", "ext4") // as a PersistentVolume of a class that says nothing has it
	if is, size := typeAndSize(t, clone); !is || size < 400 {
		t.Errorf("the clone: XFS %t with %d MiB, want an XFS that has grown to 500 less the log", is, size)
	}
	if text, err := os.ReadFile(filepath.Join(clone, "kept")); string(text) != "kept" {
		t.Errorf("the clone has %q (%v), want what the source had", text, err)
	}
	health, err := d.NodeGetVolumeHealth(t.Context(), &csipb.NodeGetVolumeHealthRequest{VolumeId: "v",
		StagingTargetPath: at})
	if ill := health.GetVolumeHealth().GetHealthStatuses(); err != nil || len(ill) > 0 {
		t.Errorf("health: got %v (%v), want nothing wrong", ill, err)
	}
}

// File systems that are not served, not there, or not a volume's own are refused by name.
func TestFileSystemsThatAreRefused(t *testing.T) {
	d, o := newDriver(t)
	create := func(name, fs, kind string) error {
		_, err := d.CreateVolume(t.Context(), &csipb.CreateVolumeRequest{Name: name,
			Parameters:         map[string]string{"type": kind},
			VolumeCapabilities: []*csipb.VolumeCapability{ofFS(fs)}})
		return err
	}
	expect.NoError(t, create("ext", "ext4", "image"))
	cases := []struct {
		what string
		err  error
		code codes.Code
		says string
	}{
		{"btrfs", create("b", "btrfs", "image"), codes.InvalidArgument, `"btrfs" is not served, only ext4 and xfs`},
		{"xfs for a directory", create("d", "xfs", "directory"), codes.InvalidArgument,
			"has the file system of the node's disk"},
		{"a volume that is there", create("ext", "xfs", "image"), codes.AlreadyExists, "or file system"},
	}
	_, err := d.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{VolumeId: "ext",
		StagingTargetPath: filepath.Join(o.Dir, "at"), VolumeCapability: ofFS("xfs")})
	cases = append(cases, struct {
		what string
		err  error
		code codes.Code
		says string
	}{"another at use", err, codes.InvalidArgument, "has the file system ext4, not xfs"})
	t.Setenv("PATH", t.TempDir())
	missing := cases[0]
	missing.what, missing.err, missing.code, missing.says = "no programs", create("x", "xfs", "image"),
		codes.FailedPrecondition, "this node has no mkfs.xfs, which volumes with the file system xfs need: install "+
			"the package xfsprogs"
	for _, c := range append(cases, missing) {
		if status.Code(c.err) != c.code || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: got %v, want %s with %q", c.what, c.err, c.code, c.says)
		}
	}
}
