package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// The group of a local volume is set for the first Pod of the node that uses it, and never under
// one that runs.
//
// row: CSI-16
func TestALocalVolumeIsGivenToTheGroupOfItsFirstPodOnly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving files away needs root")
	}
	disk, root := t.TempDir(), t.TempDir()
	file := filepath.Join(disk, "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pv := &v1.PersistentVolume{}
	pv.Name, pv.Spec.Local = "pv", &v1.LocalVolumeSource{Path: disk}
	typ := Plugin{Mounts: mount.DirMounter{}}
	use := func(uid string, group int64, readOnly bool, want, says string) {
		t.Helper()
		pod := volumetest.Pod()
		pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
		messages := ""
		_, err := typ.SetUp(t.Context(), volume.MounterArgs{
			Pod: pod, Dir: filepath.Join(t.TempDir(), "v"), FSGroup: &group,
			MetaDir: filepath.Join(root, "pods", uid, "plugins", typ.Dir(), "v"),
			Spec:    volume.Spec{Volume: &v1.Volume{Name: "v"}, PersistentVolume: pv, ReadOnly: readOnly},
			Event:   func(why, message string) { messages = why + " " + message },
		})
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%d %o", st.Sys().(*syscall.Stat_t).Gid, st.Mode().Perm())
		if got != want || messages != says {
			t.Errorf("pod %s of group %d: the file is %q, said %q; want %q, %q", uid, group, got, messages, want, says)
		}
	}
	ends := func(uid string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(root, "pods", uid)); err != nil {
			t.Fatal(err)
		}
	}
	other := "AlreadyMountedVolume The requested fsGroup is 3002, but the volume pv has GID 3001. The volume may not " +
		"be shareable."
	use("reader", 3001, true, "0 600", "")
	ends("reader")
	use("a", 3001, false, "3001 660", "")
	use("b", 3002, false, "3001 660", other)
	use("same", 3001, false, "3001 660", "")
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	use("a", 3001, false, "3001 600", "") // the kubelet was started anew: modes are the Pod's
	for _, uid := range []string{"a", "b", "same"} {
		ends(uid)
	}
	use("b", 3002, false, "3002 660", "")

	// Pods that run since local volumes had no directory of their own are users too.
	for _, uid := range []string{"b", "old"} {
		ends(uid)
	}
	former := filepath.Join(root, "pods", "old", "plugins", formerDir, "v")
	if err := os.MkdirAll(former, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(former, pathFile), []byte(disk), 0o600); err != nil {
		t.Fatal(err)
	}
	use("c", 3003, false, "3002 660", strings.ReplaceAll(strings.ReplaceAll(other, "3002", "3003"), "3001", "3002"))
	ends("c")
	use("old", 3003, false, "3002 660", "")
}

// A raw volume is mapped where upstream's kubelet maps it.
func TestGlobalMapPath(t *testing.T) {
	const want = "plugins/kubernetes.io~local-volume/volumeDevices/pv"
	if got := (Plugin{}).GlobalMapPath("pv"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
