package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/claim"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
	"github.com/gantry-project/gantry/internal/kubelet/volumemanager"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// stagedNode is a node with a driver that stages; kubelets come and go.
type stagedNode struct {
	*testNode
	t      *testing.T
	driver *volumetest.Driver
	boot   string
}

// newStagedNode has one PersistentVolume, data, that Pods may claim.
func newStagedNode(t *testing.T, root string) *stagedNode {
	n := &stagedNode{t: t, driver: volumetest.NewDriver(), boot: "boot-1",
		testNode: &testNode{o: volumetest.NewObjects(), root: root}}
	n.o.Claims["ns/data"] = &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound}}
	pv := &v1.PersistentVolume{}
	pv.Name, pv.Spec.ClaimRef = "pv", &v1.ObjectReference{}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "vol/1"}
	n.o.Volumes["pv"] = pv
	n.startKubelet()
	return n
}

// startKubelet takes the place of the kubelet that ran, as after a crash.
func (n *stagedNode) startKubelet() {
	n.Manager = volumemanager.New(volumemanager.Deps{
		Root: n.root, Objects: n.o, Mounts: mount.DirMounter{}, Recorder: n, Journal: n, BootID: n.boot,
		Plugins: volume.PluginMgr{{Plugin: volumetest.StagedPlugin{Driver: n.driver}, Inline: true,
			PersistentVolume: true}},
		Specs: claim.Resolver{Claims: n.o},
		Node:  func(*v1.Pod) volume.NodeView { return volume.NodeView{} }, Changed: func(types.UID) {},
	})
}

func (n *stagedNode) mount(uid types.UID) map[string]volume.Mounted {
	n.t.Helper()
	got, err := n.MountVolumes(n.t.Context(), claiming(uid))
	if err != nil {
		n.t.Fatal(err)
	}
	return got
}

func (n *stagedNode) unmount(uid types.UID) {
	n.t.Helper()
	if err := n.UnmountVolumes(n.t.Context(), uid); err != nil {
		n.t.Fatal(err)
	}
}

// sweep clears away all but the Pods that are known.
func (n *stagedNode) sweep(known ...types.UID) error {
	_, err := n.CleanupOrphans(n.t.Context(),
		func(uid types.UID) bool { return slices.Contains(known, uid) })
	return err
}

func (n *stagedNode) expectCalls(when string, want ...string) {
	n.t.Helper()
	if d := cmp.Diff(want, n.driver.Calls()); d != "" {
		n.t.Errorf("%s: calls of the driver (-want +got):\n%s", when, d)
	}
}

// expectNothingStaged looks at the disk.
func (n *stagedNode) expectNothingStaged() {
	n.t.Helper()
	left, err := filepath.Glob(filepath.Join(n.root, "plugins/kubernetes.io/csi/*/*"))
	if err != nil || len(left) != 0 {
		n.t.Errorf("left staged: %v %v, want nothing", left, err)
	}
}

func claiming(uid types.UID) *v1.Pod {
	p := podOf(v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}})
	p.UID = uid
	return p
}

const (
	stage     = "NodeStageVolume vol/1"
	publish   = "NodePublishVolume vol/1"
	unpublish = "NodeUnpublishVolume vol/1"
	unstage   = "NodeUnstageVolume vol/1"
)

func TestAVolumeIsStagedOncePerNode(t *testing.T) {
	n := newStagedNode(t, t.TempDir())
	got := n.mount("a")
	n.expectCalls("the first Pod", stage, publish)
	want := filepath.Join(n.root, "pods/a/volumes/kubernetes.io~csi/pv/mount")
	if m := got["v"]; m.Path != want || m.Type != "persistentVolumeClaim" {
		t.Errorf("mounted %+v, want path %s, type persistentVolumeClaim", m, want)
	}
	n.mount("b")
	n.expectCalls("the second Pod", publish)
	n.unmount("a")
	n.expectCalls("the first Pod is gone", unpublish)
	n.unmount("b")
	n.expectCalls("the last Pod is gone", unpublish, unstage)
	n.expectNothingStaged()
	n.mount("c")
	n.expectCalls("a Pod that comes later", stage, publish)
	n.unmount("c")
}

// Pods that come at once: one has the volume staged, the others wait for that and stage nothing.
//
// row: CSI-06
func TestPodsThatComeAtOnceStageOnce(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := newStagedNode(t, root)
		until := make(chan struct{})
		n.driver.Hang("NodeStageVolume", until)
		done := make(chan error)
		pods := []types.UID{"a", "b", "c"}
		for _, uid := range pods {
			go func() {
				_, err := n.MountVolumes(t.Context(), claiming(uid))
				done <- err
			}()
		}
		synctest.Wait()
		n.expectCalls("while it is staged", stage)
		close(until)
		for range pods {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		n.expectCalls("once it is staged", publish, publish, publish)
		for _, uid := range pods {
			n.unmount(uid)
		}
		n.expectCalls("the Pods are gone", unpublish, unpublish, unpublish, unstage)
	})
}

func TestStagedVolumesSurviveARestart(t *testing.T) {
	n := newStagedNode(t, t.TempDir())
	n.mount("a")
	n.mount("b")
	n.driver.Calls()
	n.startKubelet()
	n.mount("a")
	n.expectCalls("after a restart", publish)
	n.unmount("a")
	n.expectCalls("the other Pod, not seen by this kubelet yet, is a user", unpublish)

	// Another kubelet, and the Pod is gone from the API: what was stored is enough.
	n.startKubelet()
	n.o.Claims, n.o.Volumes = nil, nil
	if err := n.sweep(); err != nil {
		t.Error(err)
	}
	n.expectCalls("an orphan", unpublish, unstage)
	n.expectNothingStaged()
}

func TestVolumesAreStagedAgainAfterABoot(t *testing.T) {
	n := newStagedNode(t, t.TempDir())
	n.mount("a")
	n.driver.Calls()
	n.driver.Reboot()
	n.boot = "boot-2"
	n.startKubelet()
	n.mount("a")
	n.expectCalls("after a boot", stage, publish)
	n.unmount("a")
}

func TestAFailedStagingIsNamedAndRepeated(t *testing.T) {
	n := newStagedNode(t, t.TempDir())
	n.driver.Fail("NodeStageVolume", errors.New("no such disk"))
	const text = `MountVolume.MountDevice failed for volume "pv" : no such disk`
	if _, err := n.MountVolumes(t.Context(), claiming("a")); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %s", err, text)
	}
	n.expect(t, "Warning FailedMount "+text, "fact volume v (persistentVolumeClaim) waits: no such disk")
	n.expectCalls("it fails", stage)
	n.driver.Fail("NodeStageVolume", nil)
	n.mount("a")
	n.expectCalls("it is repeated", stage, publish)
	n.unmount("a")

	n.driver.Calls()
	n.driver.Fail("NodeStageVolume", errors.New("no such disk"))
	if _, err := n.MountVolumes(t.Context(), claiming("b")); err == nil {
		t.Error("staged what cannot be staged")
	}
	n.unmount("b")
	n.expectCalls("what was half staged is taken back", stage, unpublish, unstage)
	n.expectNothingStaged()
}

// As upstream has it, the Pod is not kept by the node's part.
func TestAFailedUnstagingIsNamedAndRepeated(t *testing.T) {
	n := newStagedNode(t, t.TempDir())
	n.mount("a")
	n.driver.Calls()
	n.testNode.expect(t, "fact ready v")
	n.driver.Fail("NodeUnstageVolume", errors.New("target is busy"))
	n.unmount("a")
	if _, err := os.Stat(filepath.Join(n.root, "pods/a")); !os.IsNotExist(err) {
		t.Errorf("the Pod's directory: %v, want it gone", err)
	}
	const text = `UnmountDevice failed for volume "pv" : target is busy`
	n.expect(t, "fact volume v (csi) waits: "+text)
	for _, when := range []string{"the next sweep", "a sweep of the next kubelet"} {
		if err := n.sweep(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v, want %s", when, err, text)
		}
		n.startKubelet()
	}
	n.expectCalls("each tries", unpublish, unstage, unstage, unstage)

	// A Pod that comes while the volume is half unstaged has it staged anew, by a kubelet that
	// tried to unstage it as well as by the next one, and keeps it.
	n.mount("b")
	n.expectCalls("in use again", stage, publish)
	n.unmount("b")
	n.mount("c")
	n.expectCalls("in use again after one more try", unpublish, unstage, stage, publish)
	n.driver.Fail("NodeUnstageVolume", nil)
	if err := n.sweep("c"); err != nil {
		t.Error(err)
	}
	n.expectCalls("a sweep while it is in use")
	n.unmount("c")
	n.expectCalls("at last", unpublish, unstage)
	n.expectNothingStaged()
}

func TestAnUnstagingThatHangsKeepsNoPod(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := newStagedNode(t, root)
		n.mount("a")
		n.driver.Calls()
		n.expect(t, "fact ready v")
		until := make(chan struct{})
		n.driver.Hang("NodeUnstageVolume", until)
		n.unmount("a")
		if _, err := os.Stat(filepath.Join(n.root, "pods/a")); !os.IsNotExist(err) {
			t.Errorf("the Pod's directory: %v, want it gone", err)
		}
		time.Sleep(10 * time.Second)
		n.mu.Lock()
		said := strings.Join(n.events, "; ")
		n.mu.Unlock()
		const want = "fact waits for the CSI driver disk.example.com: unstaging of volume pv at "
		if !strings.HasPrefix(said, want) || !strings.HasSuffix(said, "globalmount takes longer than 10s") {
			t.Errorf("said %q, want %q…", said, want)
		}
		close(until)
		synctest.Wait()
		n.expectCalls("it ends by itself", unpublish, unstage)
		n.expectNothingStaged()
	})
}

func TestAFailedTearDownKeepsTheVolumeStaged(t *testing.T) {
	n := newStagedNode(t, t.TempDir())
	n.mount("a")
	n.driver.Calls()
	n.driver.Fail("NodeUnpublishVolume", errors.New("target is busy"))
	if err := n.UnmountVolumes(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "target is busy") {
		t.Errorf("got %v, want target is busy", err)
	}
	n.expectCalls("it fails", unpublish)
	n.startKubelet()
	n.driver.Fail("NodeUnpublishVolume", nil)
	n.unmount("a")
	n.expectCalls("it is repeated by another kubelet", unpublish, unstage)
}

// An inline volume is not staged, and still torn down by its driver and handle.
func TestAVolumeWithoutStaging(t *testing.T) {
	n := newStagedNode(t, t.TempDir())
	p := podOf(v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d"}}})
	p.UID = "a"
	if _, err := n.MountVolumes(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	n.startKubelet()
	n.unmount("a")
	n.expectCalls("its life", "NodePublishVolume a/v", "NodeUnpublishVolume a/v")
}

func TestManyPodsOfOneStagedVolume(t *testing.T) {
	n := newStagedNode(t, t.TempDir())
	done := make(chan error)
	const pods = 20
	for i := range pods {
		uid := types.UID(fmt.Sprint("pod-", i))
		go func() {
			_, err := n.MountVolumes(context.WithoutCancel(t.Context()), claiming(uid))
			done <- errors.Join(err, n.UnmountVolumes(context.WithoutCancel(t.Context()), uid))
		}()
	}
	for range pods {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	count := map[string]int{}
	for _, call := range n.driver.Calls() {
		count[call]++
	}
	if count[stage] != count[unstage] || count[publish] != pods || count[unpublish] != pods {
		t.Errorf("calls %v, want as many ends as beginnings, %d Pods", count, pods)
	}
	n.expectNothingStaged()
}
