package volumemanager_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/claim"
	"github.com/gantry-project/gantry/internal/kubelet/volume/emptydir"
	"github.com/gantry-project/gantry/internal/kubelet/volume/nfs"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
	"github.com/gantry-project/gantry/internal/kubelet/volumemanager"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// hangingMounts is a kernel whose server does not answer until the channels are closed.
type hangingMounts struct {
	mount.DirMounter
	mounts, unmounts chan struct{}
	mounted          string
}

func (d *hangingMounts) Mount(_, target, _ string, _ []string) error {
	<-d.mounts
	d.mounted = target
	return nil
}

func (d *hangingMounts) MountPoints(dir string) ([]string, error) {
	if d.mounted != "" && strings.HasPrefix(d.mounted, dir) {
		return []string{d.mounted}, nil
	}
	return nil, nil
}

func (d *hangingMounts) Unmount(string) error {
	<-d.unmounts
	d.mounted = ""
	return nil
}

func nfsVolume(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "fd00::1", Path: "/x"}}}
}

func newHangingNode(t *testing.T, root string, m volume.Mounter) *testNode {
	n := &testNode{o: volumetest.NewObjects(), root: root}
	n.Manager = volumemanager.New(volumemanager.Deps{
		Root: root, Objects: n.o, Mounts: m, Recorder: n, Journal: n,
		Plugins: volume.PluginMgr{{Plugin: emptydir.Plugin{Mounts: m}, Inline: true},
			{Plugin: nfs.Plugin{Mounts: m}, Inline: true, PersistentVolume: true}},
		Specs: claim.Resolver{Claims: n.o},
		Node:  func(*v1.Pod) volume.NodeView { return volume.NodeView{} }, Changed: func(types.UID) {},
	})
	return n
}

// A mount and an unmount that hang keep their Pod, are named with path and step, and keep nobody
// else.
func TestHangIsReportedAndIsolated(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &hangingMounts{mounts: make(chan struct{}), unmounts: make(chan struct{})}
		n := newHangingNode(t, root, d)
		p, other := podOf(nfsVolume("far")), podOf(empty("e"))
		other.UID = "other"
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := n.MountVolumes(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that gives up gets %v", err)
		}
		dir := filepath.Join(root, "pods", string(p.UID), "volumes", "kubernetes.io~nfs", "far")
		n.expect(t, "fact "+
			(journal.Waiting{For: "the kernel: set-up of volume far at " + dir + " takes longer than 10s"}).Line())
		if _, err := n.MountVolumes(t.Context(), other); err != nil {
			t.Errorf("a neighbour: %v, want no error", err)
		}
		n.expect(t, "fact ready e")
		close(d.mounts)
		synctest.Wait()
		if got, err := n.MountVolumes(t.Context(), p); err != nil || got["far"].Path != dir {
			t.Errorf("when the server is back: %v %v", got, err)
		}
		n.expect(t, "fact ready far")
		released, err := n.CleanupOrphans(t.Context(), func(types.UID) bool { return false })
		if err == nil || !strings.Contains(err.Error(), string(p.UID)) || len(released) != 1 || released[0] != "other" {
			t.Errorf("orphans: %v %v", released, err)
		}
		n.expect(t, "fact "+(journal.Waiting{For: "the kernel: removal of the Pod's volumes at " + filepath.Join(root,
			"pods", string(p.UID)) + " takes longer than 10s"}).Line())
		close(d.unmounts)
		synctest.Wait()
		if released, err := n.CleanupOrphans(t.Context(), func(types.UID) bool { return false }); err != nil ||
			len(released) != 0 {
			t.Errorf("what hung was not finished by itself: %v %v, want no error, none", released, err)
		}
	})
}

// A volume that is not understood is told of when it is so at the second look, and then every ten
// seconds; the second text comes after upstream's two minutes and three seconds, and again after as
// long.
func TestMissingVolumesAreListed(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := newHangingNode(t, root, mount.DirMounter{})
		p := podOf(v1.Volume{Name: "data",
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
				ClaimName: "nope"}}}, empty("e"))
		const why = `error processing PVC ns/nope: failed to fetch PVC from API server: persistentvolumeclaims ` +
			`"nope" ` +
			`not found`
		const text = `Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to ` +
			`process volumes=[data]: ` + why
		if _, err := n.MountVolumes(t.Context(), p); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want an error with %v", err, text)
		}
		n.expect(t, "fact volume data (persistentVolumeClaim) waits: "+why, "fact ready e")
		before := len(n.events)
		for range 31 {
			time.Sleep(time.Second)
			if _, err := n.MountVolumes(t.Context(), p); err == nil {
				t.Fatal("no error")
			}
		}
		var told []string
		for _, line := range n.events[before:] {
			if strings.HasPrefix(line, "Warning ") {
				told = append(told, line)
			}
		}
		if len(told) != 4 || told[0] != "Warning FailedMount "+text {
			t.Errorf("got %q in 31 s, want four times %q", told, text)
		}
		p = podOf(v1.Volume{Name: "far",
			VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/x"}}})
		p.UID = "late"
		for range 260 {
			if _, err := n.MountVolumes(t.Context(), p); err == nil {
				t.Fatal("no error")
			}
			time.Sleep(time.Second)
		}
		count := 0
		for _, line := range n.events {
			if line == "Warning FailedMount Unable to attach or mount volumes: unmounted volumes=[far], unattached "+
				"volumes=[], failed to process volumes=[]: context deadline exceeded" {
				count++
			}
		}
		if count != 2 {
			t.Errorf("reported %d times in 260 s, want 2", count)
		}
	})
}
