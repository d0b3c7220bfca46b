package local

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	mountutils "k8s.io/mount-utils"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// loopDevice is a blank disk of 64 MB.
func loopDevice(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 64<<20); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Skipf("this machine has no loop devices: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("detaching %s: got %v: %s, want no error", device, err, out)
		}
	})
	return device
}

// row: CSI-16
// A block device with volumeMode Filesystem is formatted when it is blank, mounted once where
// upstream mounts it, keeps its files, and is unmounted after its last Pod. One with another file
// system is refused and kept.
func TestABlockDeviceIsFormattedAndMounted(t *testing.T) {
	device, root := loopDevice(t), t.TempDir()
	p, kernel := Plugin{Mounts: mount.Mounter{}}, mount.Mounter{}
	ext4, xfs := "ext4", "xfs"
	pv := &v1.PersistentVolume{}
	pv.Name, pv.Spec.Local = "pv", &v1.LocalVolumeSource{Path: device, FSType: &ext4}
	meta := func(uid string) string { return filepath.Join(root, "pods", uid, "plugins", p.Dir(), "pv") }
	at := filepath.Join(root, "plugins/kubernetes.io/local-volume/mounts/pv")
	setUp := func(uid string, group int64) (volume.Mounted, error) {
		pod := volumetest.Pod()
		pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
		return p.SetUp(t.Context(), volume.MounterArgs{Pod: pod, MetaDir: meta(uid), FSGroup: &group,
			Spec: volume.Spec{Volume: &v1.Volume{Name: "v"}, PersistentVolume: pv}})
	}
	tearDown := func(uid string) {
		t.Helper()
		if err := p.TearDown(t.Context(), volume.UnmounterArgs{MetaDir: meta(uid),
			Data: volume.VolumeData{SpecVolID: "pv"}}); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(meta(uid)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = kernel.Unmount(at) })
	mounted := func(step string, want bool) {
		t.Helper()
		if got, err := kernel.IsMountPoint(at); err != nil || got != want {
			t.Fatalf("%s: mounted is %v (%v), want %v", step, got, err, want)
		}
	}
	for _, uid := range []string{"a", "b", "a"} { // the last is a kubelet that starts anew
		m, err := setUp(uid, 3001)
		if err != nil || m.Path != at || m.Device {
			t.Fatalf("pod %s: got %+v (%v), want the file system at %s", uid, m, err, at)
		}
	}
	points, err := kernel.MountPoints(at)
	if err != nil || len(points) != 1 {
		t.Errorf("got mounted at %v (%v), want once", points, err)
	}
	file := filepath.Join(at, "kept")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	tearDown("a")
	mounted("another Pod has it", true)
	tearDown("b")
	mounted("the last Pod is gone", false)
	if _, err := os.Lstat(at); err == nil {
		t.Errorf("%s stays, want it removed", at)
	}
	tearDown("b")

	pv.Spec.Local.FSType = &xfs
	_, err = setUp("c", 3001)
	mismatch := mountutils.MountError{}
	if err == nil || !strings.Contains(err.Error(), "local: failed to mount device "+device) ||
		!errors.As(err, &mismatch) || mismatch.Type != mountutils.FilesystemMismatch {
		t.Errorf("got %v, want a mismatch of the file systems", err)
	}
	mounted("another file system", false)
	tearDown("c")
	pv.Spec.Local.FSType = nil
	if _, err := setUp("d", 3001); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "data" {
		t.Errorf("got the file %q (%v), want it as it was", got, err)
	}
	tearDown("d")
	mounted("all Pods are gone", false)
}
