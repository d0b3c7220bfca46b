package csi_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/test/expect"
)

// fileDevices are the paths that are kept open; a path that is bound nowhere is refused.
type fileDevices map[string]bool

var errNoLoops = errors.New("no loop device is free")

func (h fileDevices) AttachFileDevice(path string) (string, error) {
	if h["none"] {
		return "", errNoLoops
	}
	if _, err := os.Stat(path); err != nil {
		return "", err
	}
	h[path] = true
	return "/dev/loop0", nil
}

func (h fileDevices) DetachFileDevice(path string) error {
	delete(h, path)
	return nil
}

// ofRaw is a rig whose volume is raw, and its Pods.
func ofRaw(t *testing.T) (*rig, func(types.UID) *v1.Pod) {
	r := newRig(t)
	r.pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	return r, func(uid types.UID) *v1.Pod {
		pod := claiming(uid)
		pod.Spec.Containers[0] = v1.Container{Name: "c", VolumeDevices: []v1.VolumeDevice{{Name: "v"}}}
		return pod
	}
}

// at is a path below the kubelet's directory.
func (r *rig) at(path string) string { return filepath.Join(r.root, path) }

// devicesLeft is all below the directories of raw volumes, but for the three that stay.
func (r *rig) devicesLeft() (left []string) {
	r.t.Helper()
	dir := r.at("plugins/kubernetes.io/csi/volumeDevices")
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); !slices.Contains([]string{".", "staging", "publish"}, rel) {
			left = append(left, rel)
		}
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
	return left
}

const rawDir = "plugins/kubernetes.io/csi/volumeDevices/"

// row: CSI-05, CSI-07
// A raw volume is staged, published, bound, linked and kept open where
// upstream's kubelet does that, which says so in two events; nothing of it is left behind.
func TestBlockVolume(t *testing.T) {
	r, pod := ofRaw(t)
	m := r.mount(pod("a"))
	publish, link, global := r.at(rawDir+"publish/pv/a"), r.at("pods/a/volumeDevices/kubernetes.io~csi/pv"),
		r.at(rawDir+"pv/dev/a")
	if m.Path != publish || m.MapPath != link || !m.Device {
		t.Errorf("got %+v, want the device %s by %s", m, publish, link)
	}
	if to, err := os.Readlink(link); to != publish {
		t.Errorf("%s leads to %q (%v), want %s", link, to, err, publish)
	}
	if to, err := filepath.EvalSymlinks(global); to != publish { // a bind mount is a link here
		t.Errorf("%s is %q (%v), want %s bound there", global, to, err, publish)
	}
	if want := (fileDevices{global: true}); !maps.Equal(r.held, want) {
		t.Errorf("kept open: got %v, want %v", r.held, want)
	}
	stage := r.driver.Request("NodeStageVolume").(*csipb.NodeStageVolumeRequest)
	if got, want := stage.GetStagingTargetPath(), r.at(rawDir+"staging/pv"); got != want ||
		stage.GetVolumeCapability().GetBlock() == nil {
		t.Errorf("staged at %s as %v, want %s and block", got, stage.GetVolumeCapability(), want)
	}
	text, err := os.ReadFile(r.at(rawDir + "pv/data/vol_data.json"))
	stored := map[string]any{}
	if err := errors.Join(err, json.Unmarshal(text, &stored)); err != nil || stored["specVolID"] != "pv" ||
		stored["driverName"] != "disk.example.com" || stored["volumeHandle"] != handle {
		t.Errorf("stored of the volume: got %s (%v), want its name, driver and handle", text, err)
	}
	said := `Normal SuccessfulMountVolume MapVolume.MapPodDevice succeeded for volume "pv" `
	want := []string{fmt.Sprintf("%sglobalMapPath %q", said, filepath.Dir(global)),
		fmt.Sprintf("%svolumeMapPath %q", said, filepath.Dir(link))}
	if d := cmp.Diff(want, r.events); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	r.calls("NodeStageVolume", "NodePublishVolume")
	r.unmount("a")
	r.calls("NodeUnpublishVolume", "NodeUnstageVolume")
	if got := r.driver.Request("NodeUnpublishVolume").(*csipb.NodeUnpublishVolumeRequest).GetTargetPath(); got !=
		publish {
		t.Errorf("unpublished %s, want %s", got, publish)
	}
	r.nothingMapped()
}

func (r *rig) nothingMapped() {
	r.t.Helper()
	if left := r.devicesLeft(); len(left) > 0 || len(r.held) > 0 {
		r.t.Errorf("left %v, kept open %v, want nothing", left, r.held)
	}
	if left, _ := filepath.Glob(r.at("pods/*")); len(left) > 0 {
		r.t.Errorf("left of Pods: %v, want nothing", left)
	}
}

// Each Pod has the device by a path of its own: the end of one takes nothing from another.
func TestARawVolumeOfTwoPods(t *testing.T) {
	r, pod := ofRaw(t)
	r.mount(pod("a"))
	m := r.mount(pod("b"))
	r.calls("NodeStageVolume", "NodePublishVolume", "NodePublishVolume")
	r.unmount("a")
	r.calls("NodeUnpublishVolume")
	if want := (fileDevices{r.at(rawDir + "pv/dev/b"): true}); !maps.Equal(r.held, want) {
		t.Errorf("kept open: got %v, want %v", r.held, want)
	}
	if _, err := os.Stat(m.MapPath); err != nil {
		t.Errorf("the other Pod's device: %v, want it there", err)
	}
	r.unmount("b")
	r.calls("NodeUnpublishVolume", "NodeUnstageVolume")
	r.nothingMapped()
}

// row: CSI-08
// A kubelet that starts finds what is mapped: it stages nothing again, maps what a boot took away,
// and unmaps for Pods that have ended meanwhile, also where nothing is stored of them.
func TestMappedDevicesAreFoundAgain(t *testing.T) {
	r, pod := ofRaw(t)
	m := r.mount(pod("a"))
	r.calls("NodeStageVolume", "NodePublishVolume")
	global, stray := r.at(rawDir+"pv/dev/a"), r.at(rawDir+"other/dev/gone")
	clear(r.held)
	expect.NoError(t, os.Remove(m.MapPath))
	expect.NoError(t, os.Symlink("/dev/another", m.MapPath))
	r.start()
	r.register()
	r.mount(pod("a"))
	r.calls("NodePublishVolume")
	if to, err := os.Readlink(m.MapPath); to != m.Path || !r.held[global] {
		t.Errorf("linked to %q (%v), kept open %v; want %s and %s", to, err, r.held, m.Path, global)
	}
	expect.NoError(t, os.MkdirAll(filepath.Dir(stray), 0o755))
	expect.NoError(t, os.Symlink(m.Path, stray))
	r.held[stray] = true
	r.start()
	r.register()
	if _, err := r.CleanupOrphans(t.Context(), func(uid types.UID) bool { return uid == "a" }); err != nil {
		t.Error(err)
	}
	if want := (fileDevices{global: true}); !maps.Equal(r.held, want) {
		t.Errorf("kept open while the Pod is known: got %v, want %v", r.held, want)
	}
	if _, err := r.CleanupOrphans(t.Context(), func(types.UID) bool { return false }); err != nil {
		t.Error(err)
	}
	r.calls("NodeUnpublishVolume", "NodeUnstageVolume")
	r.nothingMapped()
}

// A Pod waits for a device that cannot be kept open, in upstream's words, and has it once that can
// be.
func TestADeviceThatCannotBeKeptOpen(t *testing.T) {
	r, pod := ofRaw(t)
	r.held["none"] = true
	want := `FailedMapVolume MapVolume.MapBlockVolume failed for volume "pv" : `
	if got := r.refused(pod("a")); !strings.Contains(got, errNoLoops.Error()) {
		t.Errorf("got %s, want %v in it", got, errNoLoops)
	}
	if len(r.events) != 1 || !strings.HasPrefix(r.events[0], want) {
		t.Errorf("events: got %q, want one %s…", r.events, want)
	}
	delete(r.held, "none")
	r.mount(pod("a"))
	r.unmount("a")
	r.nothingMapped()
}

// A raw volume that an earlier Gantry staged beside file systems, and mapped nowhere, stays staged
// there until its Pods end.
func TestARawVolumeStagedAsAFileSystem(t *testing.T) {
	r, pod := ofRaw(t)
	staged := r.at(fmt.Sprintf(stagingPath, sha256.Sum256([]byte(handle))))
	data := volume.VolumeData{PluginName: "csi", SpecVolID: "pv", DriverName: "disk.example.com", Block: true,
		VolumeHandle: handle, DeviceMountPath: staged, MountedInBoot: "boot"}
	ofPod := data
	ofPod.VolumeName, ofPod.MountedInBoot = "v", ""
	for dir, d := range map[string]volume.VolumeData{filepath.Dir(staged): data,
		r.at("pods/a/plugins/kubernetes.io~csi/pv"): ofPod} {
		text, err := json.Marshal(d)
		expect.NoError(t, err)
		expect.NoError(t, os.MkdirAll(dir, 0o755))
		expect.NoError(t, os.WriteFile(filepath.Join(dir, "vol_data.json"), text, 0o600))
	}
	r.driver.Staged(handle, staged)
	r.mount(pod("a"))
	r.mount(pod("b"))
	r.calls("NodePublishVolume", "NodePublishVolume")
	r.unmount("a")
	r.unmount("b")
	r.calls("NodeUnpublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume")
	if got := r.driver.Request("NodeUnstageVolume").(*csipb.NodeUnstageVolumeRequest).GetStagingTargetPath(); got !=
		staged {
		t.Errorf("unstaged at %s, want %s", got, staged)
	}
	r.nothingMapped()
}

// Two PersistentVolumes of one volume are staged once, and unstaged when neither is used.
func TestTwoPersistentVolumesOfOneRawVolume(t *testing.T) {
	r, pod := ofRaw(t)
	first := r.pv
	r.mount(pod("a"))
	second := first.DeepCopy()
	second.Name = "second"
	r.spec.PersistentVolume = second
	r.mount(pod("b"))
	r.calls("NodeStageVolume", "NodePublishVolume", "NodePublishVolume")
	r.start()
	r.register()
	r.unmount("a")
	r.calls("NodeUnpublishVolume")
	r.unmount("b")
	r.calls("NodeUnpublishVolume", "NodeUnstageVolume")
	r.nothingMapped()
}
