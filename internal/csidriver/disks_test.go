package csidriver_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// diskOptions are of a disk that needs more than its file system and size.
type diskOptions struct {
	make  []string // arguments of mkfs
	mount string   // option; the test is skipped where the kernel does not know it
}

// onDisk has the test's drivers work on a disk of their own, of a file system and size.
func onDisk(t *testing.T, fs string, size int64, more ...diskOptions) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	if _, err := exec.LookPath("mkfs." + fs); err != nil {
		t.Skip("no mkfs." + fs)
	}
	if known, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(known), "\t"+fs+"\n") {
		t.Skip("the kernel does not know " + fs)
	}
	dir, err := os.MkdirTemp("", "disk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "d")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		t.Fatal(err)
	}
	make, options := []string{"mkfs." + fs, "-q", image}, "loop"
	for _, m := range more {
		make, options = slices.Concat(make[:2], m.make, []string{image}), "loop,"+m.mount
	}
	for _, args := range [][]string{make, {"mkdir", at}, {"mount", "-o", options, image, at}} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil && args[0] == "mount" && len(more) > 0 {
			t.Skipf("the kernel does not mount %s with %s: %s", fs, options, out)
		}
		if err != nil {
			t.Fatalf("%v: got %v, want no error: %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount: got %v, want no error: %s", err, out)
		}
	})
	t.Setenv("TMPDIR", at)
}

// On a disk that shares blocks (xfs) a raw volume is cloned, and a snapshot of it taken and
// restored, while it is in use: they have what was synced to it by then.
func TestRawVolumesInUseAreCopiedOnXFS(t *testing.T) {
	onDisk(t, "xfs", 512<<20)
	d, o := newDriver(t)
	raw := &csipb.VolumeCapability{AccessMode: capability.AccessMode,
		AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}}
	if _, err := d.CreateVolume(t.Context(), copyOf("source", "", raw)); err != nil {
		t.Fatal(err)
	}
	staged, device := filepath.Join(filepath.Dir(o.Dir), "staged"), filepath.Join(filepath.Dir(o.Dir), "device")
	if _, err := d.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{VolumeId: "source",
		StagingTargetPath: staged, VolumeCapability: raw}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.NodePublishVolume(t.Context(), &csipb.NodePublishVolumeRequest{VolumeId: "source",
		StagingTargetPath: staged, TargetPath: device, VolumeCapability: raw}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := d.NodeUnpublishVolume(context.Background(), &csipb.NodeUnpublishVolumeRequest{VolumeId: "source",
			TargetPath: device}); err != nil {
			t.Error(err)
		}
	})
	f, err := os.OpenFile(device, os.O_RDWR, 0) // in use until the end
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	was, is := bytes.Repeat([]byte("was "), 1<<20), bytes.Repeat([]byte("is! "), 1<<20)
	write := func(text []byte) {
		t.Helper()
		if _, err := f.WriteAt(text, 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	write(was)
	if _, err := d.CreateVolume(t.Context(), copyOf("clone", "source", raw)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.CreateSnapshot(t.Context(), &csipb.CreateSnapshotRequest{Name: "snapshot",
		SourceVolumeId: "source"}); err != nil {
		t.Fatal(err)
	}
	write(is)
	restored := copyOf("restored", "", raw)
	restored.VolumeContentSource = &csipb.VolumeContentSource{Type: &csipb.VolumeContentSource_Snapshot{
		Snapshot: &csipb.VolumeContentSource_SnapshotSource{SnapshotId: "snapshot"}}}
	if _, err := d.CreateVolume(t.Context(), restored); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"clone", "restored"} {
		got, err := os.ReadFile(filepath.Join(o.Dir, "volumes", id, "disk.img"))
		if err != nil || !bytes.HasPrefix(got, was) {
			t.Errorf("%s does not have what was written before (%v)", id, err)
		}
	}
}

// What a full disk cannot hold is refused with ResourceExhausted and words that say so, before it
// is begun where its size is known, and else nothing of it is left; once there is room it is made.
func TestAFullDiskIsAClearError(t *testing.T) {
	onDisk(t, "ext4", 192<<20)
	d, o := newDriver(t)
	dir := copyOf("dir", "", capability)
	dir.Parameters["type"] = "directory" // which has no bound: it may hold more than was promised
	dir.CapacityRange.RequiredBytes = 16 << 20
	if _, err := d.CreateVolume(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(o.Dir, "volumes/dir/data/file")
	if err := os.WriteFile(data, bytes.Repeat([]byte("x"), 48<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(o.Dir, &st); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(filepath.Dir(o.Dir), "filler")
	room := int64(st.Bavail)*st.Bsize - 20<<20
	f, err := os.OpenFile(filler, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, room); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	image, clone := copyOf("image", "", capability), copyOf("clone", "dir", capability)
	clone.Parameters["type"], clone.CapacityRange.RequiredBytes = "directory", 16<<20
	for _, c := range []struct {
		r    *csipb.CreateVolumeRequest
		says string
	}{{image, "33554432 bytes are asked for, the disk of "}, {clone, "No space left on device"}} {
		_, err := d.CreateVolume(t.Context(), c.r)
		if err == nil || !strings.Contains(err.Error(), c.says) || status.Code(err) != codes.ResourceExhausted &&
			!errors.Is(err, unix.ENOSPC) { // which the server makes the code of
			t.Errorf("%s: got %v, want ResourceExhausted and %q", c.r.GetName(), err, c.says)
		}
	}
	left, err := os.ReadDir(filepath.Join(o.Dir, "volumes"))
	if err != nil || len(left) != 1 {
		t.Errorf("left of what failed: %v (%v), want the source alone", left, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*csipb.CreateVolumeRequest{image, clone} {
		if _, err := d.CreateVolume(t.Context(), r); err != nil {
			t.Errorf("%s, when there is room: got %v, want no error", r.GetName(), err)
		}
	}
}
