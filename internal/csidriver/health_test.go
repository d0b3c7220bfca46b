package csidriver_test

import (
	"os"
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

// health is what the driver says of a volume: status and reason of each entry.
func health(t *testing.T, d *csidriver.Driver, id, staged string) string {
	t.Helper()
	got, err := d.NodeGetVolumeHealth(t.Context(), &csipb.NodeGetVolumeHealthRequest{VolumeId: id,
		StagingTargetPath: staged})
	if err != nil {
		return status.Code(err).String()
	}
	if got.GetVolumeHealth().GetVolumeId() != id {
		t.Errorf("the answer is about volume %q, want %q", got.GetVolumeHealth().GetVolumeId(), id)
	}
	var all []string
	for _, e := range got.GetVolumeHealth().GetHealthStatuses() {
		all = append(all, e.GetStatus().String()+" "+e.GetReason())
		if e.GetMessage() == "" {
			t.Errorf("%s has no message", e.GetReason())
		}
	}
	return strings.Join(all, ", ")
}

// controllerHealth is the same of what the driver's controller says, which knows of no mount.
func controllerHealth(t *testing.T, d *csidriver.Driver, id string) string {
	t.Helper()
	got, err := d.ControllerGetVolumeHealth(t.Context(), &csipb.ControllerGetVolumeHealthRequest{VolumeId: id})
	if err != nil {
		return status.Code(err).String()
	}
	var all []string
	for _, e := range got.GetVolumeHealth().GetHealthStatuses() {
		all = append(all, e.GetStatus().String()+" "+e.GetReason())
	}
	return strings.Join(all, ", ")
}

// shutdown has an ext4 file system answer with errors, as when its disk is gone
// (EXT4_IOC_SHUTDOWN).
func shutdown(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const request, withoutFlush = 0x8004587d, 2
	if err := unix.IoctlSetPointerInt(int(f.Fd()), request, withoutFlush); err != nil {
		t.Skipf("this kernel does not shut a file system down: %v", err)
	}
}

// stageVolume stages a volume as kubelets do, who try again: a mount namespace that another process
// makes meanwhile keeps the file system in use until that process ends.
func stageVolume(t *testing.T, d *csidriver.Driver, r *csipb.NodeStageVolumeRequest) {
	t.Helper()
	expect.EventuallyNoError(t, "the volume is staged", func() error {
		_, err := d.NodeStageVolume(t.Context(), r)
		return err
	})
}

// The driver says what is wrong with a volume's files and its file system, and of which kind it is.
func TestTheDriverSaysWhatIsWrongWithAVolume(t *testing.T) {
	d, o := newDriver(t)
	id, err := create(t, d, 32<<20)
	if err != nil {
		t.Fatal(err)
	}
	staged := filepath.Join(filepath.Dir(o.Dir), "staged")
	stage := func() {
		t.Helper()
		stageVolume(t, d, &csipb.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: staged,
			VolumeCapability: capability})
	}
	unstage := func() {
		t.Helper()
		if _, err := d.NodeUnstageVolume(t.Context(), &csipb.NodeUnstageVolumeRequest{VolumeId: id,
			StagingTargetPath: staged}); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(o.Dir, "volumes", id)
	image, record := filepath.Join(dir, "disk.img"), filepath.Join(dir, "volume.json")
	expect := func(what, want string) {
		t.Helper()
		if got := health(t, d, id, staged); got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
		if what == "without its directory, and mounted" {
			want = "NotFound" // the controller does not know what is mounted
		}
		if got := controllerHealth(t, d, id); got != want {
			t.Errorf("%s: the controller says %q, want %q", what, got, want)
		}
	}
	expect("a new volume", "")
	stage()
	expect("a staged volume", "")
	if err := unix.Mount("", staged, "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	expect("mounted for reading", "")
	if err := unix.Mount("", staged, "", unix.MS_REMOUNT|unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	shutdown(t, staged)
	if got := health(t, d, id, staged); !strings.Contains(got, "INACCESSIBLE InputOutputError") {
		t.Errorf("without its disk: got %q", got)
	}
	unstage()
	stage()
	unstage()
	expect("mounted anew", "")

	moved := image + ".moved"
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(image, moved)
	expect("without its image", "INACCESSIBLE ImageMissing")
	rename(moved, image)
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	super := make([]byte, 2048)
	if _, err := f.ReadAt(super, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 2048), 0); err != nil {
		t.Fatal(err)
	}
	expect("with its superblock overwritten", "DATA_LOSS ImageDamaged")
	if _, err := f.WriteAt(super, 0); err != nil {
		t.Fatal(err)
	}
	expect("with its superblock as it was", "")
	if err := f.Truncate(16 << 20); err != nil {
		t.Fatal(err)
	}
	expect("cut short", "DATA_LOSS ImageTruncated")
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("with its record damaged", "INACCESSIBLE RecordDamaged")
	if err := os.WriteFile(record, text, 0o600); err != nil {
		t.Fatal(err)
	}
	rename(dir, dir+".moved")
	expect("without its directory", "NotFound")
	if err := os.MkdirAll(staged, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", staged, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(staged, unix.MNT_DETACH) }()
	expect("without its directory, and mounted", "INACCESSIBLE DirectoryMissing")
	if got := health(t, d, "", staged); got != codes.InvalidArgument.String() {
		t.Errorf("without an id: got %s", got)
	}
	if got := controllerHealth(t, d, ""); got != codes.InvalidArgument.String() {
		t.Errorf("without an id: the controller says %s, want InvalidArgument", got)
	}
}

// A directory volume is its directory; the storage is the directory of all volumes.
func TestTheDriverSaysWhatIsWrongWithItsStorage(t *testing.T) {
	d, o := newDriver(t)
	v, err := d.CreateVolume(t.Context(), &csipb.CreateVolumeRequest{Name: t.Name(),
		VolumeCapabilities: []*csipb.VolumeCapability{capability}, Parameters: map[string]string{"type": "directory"}})
	if err != nil {
		t.Fatal(err)
	}
	id := v.GetVolume().GetVolumeId()
	if got := health(t, d, id, ""); got != "" {
		t.Errorf("a directory volume: got %q", got)
	}
	if err := os.RemoveAll(filepath.Join(o.Dir, "volumes", id, "data")); err != nil {
		t.Fatal(err)
	}
	if got := health(t, d, id, ""); got != "INACCESSIBLE DirectoryMissing" {
		t.Errorf("without its directory: got %q", got)
	}
	if got := controllerHealth(t, d, id); got != "INACCESSIBLE DirectoryMissing" {
		t.Errorf("without its directory: the controller says %q, want INACCESSIBLE DirectoryMissing", got)
	}
	storage := func() string {
		t.Helper()
		got, err := d.NodeGetStorageHealth(t.Context(), &csipb.NodeGetStorageHealthRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, b := range got.GetBackendHealth() {
			all = append(all, b.GetStatus().String()+" "+b.GetReason())
		}
		return strings.Join(all, ", ")
	}
	volumes := filepath.Join(o.Dir, "volumes")
	if got := storage(); got != "" {
		t.Errorf("the storage: got %q", got)
	}
	over := func(options string, flags uintptr, want string) {
		t.Helper()
		if err := unix.Mount("tmpfs", volumes, "tmpfs", flags, options); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Unmount(volumes, 0) }()
		if want == "STORAGE_DEGRADED DiskFull" {
			if err := os.WriteFile(filepath.Join(volumes, "all"), make([]byte, 64<<10), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := storage(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	over("size=64k", unix.MS_RDONLY, "STORAGE_DEGRADED FilesystemReadOnly")
	over("size=64k", 0, "STORAGE_DEGRADED DiskFull")
	if err := os.Rename(volumes, volumes+".moved"); err != nil {
		t.Fatal(err)
	}
	if got := storage(); got != "STORAGE_UNREACHABLE DirectoryMissing" {
		t.Errorf("without its directory: got %q", got)
	}
	if err := os.Rename(volumes+".moved", volumes); err != nil {
		t.Fatal(err)
	}
}
