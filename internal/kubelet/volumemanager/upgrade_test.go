package volumemanager_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/claim"
	"github.com/gantry-project/gantry/internal/kubelet/volume/emptydir"
	"github.com/gantry-project/gantry/internal/kubelet/volume/local"
	"github.com/gantry-project/gantry/internal/kubelet/volume/nfs"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
	"github.com/gantry-project/gantry/internal/kubelet/volumemanager"
	"github.com/gantry-project/gantry/internal/linux/mount"
	"github.com/gantry-project/gantry/test/expect"
)

// mountTable is a kernel that only notes what is mounted where.
type mountTable struct {
	mount.DirMounter
	points []string
	mounts int // calls of Mount
}

func (m *mountTable) Mount(_, target, _ string, _ []string) error {
	m.mounts++
	m.points = append(m.points, target)
	return nil
}

func (m *mountTable) IsMountPoint(path string) (bool, error) {
	return slices.Contains(m.points, path), nil
}

func (m *mountTable) MountPoints(dir string) (below []string, err error) {
	for _, p := range m.points {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			below = append(below, p)
		}
	}
	return below, nil
}

func (m *mountTable) Unmount(target string) error {
	m.points = slices.DeleteFunc(m.points, func(p string) bool { return p == target })
	return nil
}

// formerNode is a node as a Gantry left it that stored nothing of volumes and kept all that was
// behind claims in NFS's directory: a Pod with an NFS claim, a local one and an emptyDir.
func formerNode(t *testing.T) (n *testNode, m *mountTable, disk string) {
	root, disk := t.TempDir(), t.TempDir()
	m = &mountTable{points: []string{filepath.Join(root, "pods/a/volumes/kubernetes.io~nfs/far")}}
	for _, dir := range []string{m.points[0], filepath.Join(root, "pods/a/volumes/kubernetes.io~empty-dir/e"),
		filepath.Join(root, "pods/a/plugins/kubernetes.io~nfs/near")} {
		expect.NoError(t, os.MkdirAll(dir, 0o755))
	}
	expect.NoError(t, os.WriteFile(filepath.Join(root, "pods/a/plugins/kubernetes.io~nfs/near/path"), []byte(disk),
		0o600))
	expect.NoError(t, os.WriteFile(filepath.Join(root, "pods/a/volumes/kubernetes.io~empty-dir/e/kept"), nil, 0o600))
	expect.NoError(t, os.WriteFile(filepath.Join(disk, "mine"), nil, 0o600))
	n = &testNode{o: volumetest.NewObjects(), root: root}
	for name, source := range map[string]v1.PersistentVolumeSource{
		"far":  {NFS: &v1.NFSVolumeSource{Server: "s", Path: "/x"}},
		"near": {Local: &v1.LocalVolumeSource{Path: disk}},
	} {
		n.o.Claims["ns/"+name] = &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{VolumeName: name},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound}}
		n.o.Volumes[name] = &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{},
			PersistentVolumeSource: source}}
	}
	n.Manager = volumemanager.New(volumemanager.Deps{
		Root: root, Objects: n.o, Mounts: m, Recorder: n, Journal: n,
		Plugins: volume.PluginMgr{{Plugin: emptydir.Plugin{Mounts: m}, Inline: true},
			{Plugin: local.Plugin{Mounts: m}, PersistentVolume: true},
			{Plugin: nfs.Plugin{Mounts: m}, PersistentVolume: true}},
		Specs: claim.Resolver{Claims: n.o},
		Node:  func(*v1.Pod) volume.NodeView { return volume.NodeView{} }, Changed: func(types.UID) {},
	})
	return n, m, disk
}

func expectReleased(t *testing.T, n *testNode, m *mountTable, disk string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(n.root, "pods/a")); !os.IsNotExist(err) {
		t.Errorf("the Pod's directory: %v, want it gone", err)
	}
	if len(m.points) != 0 {
		t.Errorf("still mounted: %v, want nothing", m.points)
	}
	if _, err := os.Stat(filepath.Join(disk, "mine")); err != nil {
		t.Errorf("a file of the local volume: %v, want it kept", err)
	}
}

func TestVolumesOfAnOlderGantryAreTornDown(t *testing.T) {
	n, m, disk := formerNode(t)
	if _, err := n.CleanupOrphans(t.Context(), func(types.UID) bool { return false }); err != nil {
		t.Fatal(err)
	}
	expectReleased(t, n, m, disk)
}

func TestAPodKeepsItsVolumesThroughAnUpgrade(t *testing.T) {
	n, m, disk := formerNode(t)
	claimed := func(name string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
	}
	p := podOf(claimed("far"), claimed("near"), empty("e"))
	p.UID = "a"
	got, err := n.MountVolumes(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	far := filepath.Join(n.root, "pods/a/volumes/kubernetes.io~nfs/far")
	if m.mounts != 0 || got["far"].Path != far || got["near"].Path != disk {
		t.Errorf("mounted %d times, got %+v; want no mount, %s and %s", m.mounts, got, far, disk)
	}
	if _, err := os.Stat(filepath.Join(got["e"].Path, "kept")); err != nil {
		t.Errorf("a file of the emptyDir: %v, want it kept", err)
	}
	if err := n.UnmountVolumes(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	expectReleased(t, n, m, disk)
}
