package gather

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
)

// A registration socket is asked for its driver; one that nobody serves is found.
//
// row: CSI-13
func TestRegistrationSocketsAreAsked(t *testing.T) {
	dir, err := os.MkdirTemp("", "reg") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	(&csitest.Driver{Name: "disk.example.com"}).Start(t).Register(t, dir)
	l, err := net.Listen("unix", filepath.Join(dir, "old.sock"))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	got := registrySockets(t.Context(), dir)
	if len(got) != 2 || got[0].Driver != "disk.example.com" || got[0].Err != nil || got[1].Err == nil ||
		!strings.HasSuffix(got[1].Path, "/old.sock") {
		t.Errorf("got %+v, want the driver's socket and one that nobody serves", got)
	}
}

type mounted map[string][]string

func (m mounted) MountPoints(dir string) ([]string, error) { return m[dir], nil }

// Directories of Pods of the node are not lost, whether they are the API's or a static Pod's.
func TestDirectoriesOfLostPods(t *testing.T) {
	dir := t.TempDir()
	for _, uid := range []string{"here", "static", "gone"} {
		if err := os.Mkdir(filepath.Join(dir, uid), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	pods := []v1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: types.UID("here")}}, {ObjectMeta: metav1.ObjectMeta{UID: "m",
		Annotations: map[string]string{v1.MirrorPodAnnotationKey: "static"}}}}
	gone := filepath.Join(dir, "gone")
	got := lostPodDirs(dir, pods, mounted{gone: {gone + "/volumes/v"}})
	if len(got) != 1 || got[0].Path != gone || len(got[0].Mounts) != 1 {
		t.Errorf("got %+v, want %s with one mount", got, gone)
	}
}

// A loop device is lost when its image is deleted, or when no PersistentVolume has it; those of
// other programs are not looked at.
func TestLostLoopDevices(t *testing.T) {
	sys, dir := t.TempDir(), t.TempDir()
	images := map[string]string{"loop0": dir + "/volumes/pvc-1/disk.img", "loop1": dir + "/volumes/pvc-2/disk.img",
		"loop2": dir + "/volumes/csi-3/disk.img (deleted)", "loop3": dir + "/volumes/csi-4/disk.img",
		"loop4": "/other/volumes/pvc-2/disk.img (deleted)"}
	for loop, image := range images {
		at := filepath.Join(sys, loop, "loop")
		if err := os.MkdirAll(at, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "backing_file"), []byte(image+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	volumes := []v1.PersistentVolume{{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
		CSI: &v1.CSIPersistentVolumeSource{VolumeHandle: "pvc-1"}}}}}
	got := lostLoops(sys, dir, volumes)
	if len(got) != 2 || got[0].Device != "/dev/loop1" || got[0].Why != "no PersistentVolume has it" ||
		got[1].Device != "/dev/loop2" || !strings.Contains(got[1].Why, "deleted") {
		t.Errorf("got %+v, want loop1 without a volume and loop2, deleted", got)
	}
}
